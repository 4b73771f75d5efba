"""et_ios_xcframework: the runtime as XCFrameworks, with programs and data, for Xcode and rules_apple."""

load("//rules:providers.bzl", "EtAppInfo", "EtAppPackageInfo")
load("//rules/private:app_files.bzl", "RUNNER_LICENSES", "license_paths", "needed_resources")
load("//rules/private:programs_folder.bzl", "link_file", "programs_folder")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/python:paths.bzl", "pair_format")
load("//toolchains/runtime:import_names.bzl", "API_FRAMEWORK", "SLICES")

_PLATFORMS = ["ios_arm64", "ios_sim_arm64"]

# What the sources for Swift define, beside the framework that they import.
_TYPES = ["Chat", "Program", "ProgramError", "Programs", "Tensor", API_FRAMEWORK]
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

def _et_ios_xcframework_impl(ctx):
    apps = _apps(ctx)
    module = _module_name(ctx)
    root = ctx.label.name + "/"
    first = apps.values()[0]
    frameworks = _frameworks(ctx, apps)
    has_api = all([app.api_library for app in apps.values()])
    if has_api:
        frameworks[API_FRAMEWORK] = _api_framework(ctx, apps)
        if module in _TYPES:
            fail("%s: module_name: got \"%s\", which is a name in the package. Set module_name to another one." %
                 (ctx.label, module))
    parts = [
        struct(path = path, file = link_file(ctx, root + path, file))
        for part in frameworks.values()
        for path, file in part.items()
    ]
    licenses = [
        struct(path = path, file = link_file(ctx, root + path, file))
        for path, file in _licenses(ctx, apps, has_api).items()
    ]
    sources = "Sources/%s/" % module
    code = [
        struct(path = sources + file.basename, file = link_file(ctx, root + sources + file.basename, file))
        for file in (ctx.files._sources if has_api else [])
    ]
    resources = programs_folder(
        ctx,
        root = root + sources + "ExecuTorch/",
        programs = {p.label: p for app in apps.values() for p in app.programs}.values(),
        variants = first.variants,
        files = first.assets,
        platforms = apps.keys(),
        runtime_version = first.runtime.executorch_version,
    )
    plists = {
        name: ctx.actions.declare_file("%s%s.xcframework/Info.plist" % (root, name))
        for name in frameworks
    }
    package = ctx.actions.declare_file(root + "Package.swift")
    source = ctx.actions.declare_file("%s%s%s.swift" % (root, sources, module))
    archive = ctx.actions.declare_file(ctx.label.name + ".zip")
    args = ctx.actions.args()
    args.add("--name", ctx.label.name)
    args.add("--module", module)
    args.add_all([SLICES[platform] for platform in apps], before_each = "--slice")
    for name, plist in plists.items():
        args.add("--framework", plist, format = pair_format(name))
    args.add("--package", package)
    args.add("--source", source)
    args.add("--zip", archive)
    for part in parts:
        args.add("--file", part.file, format = pair_format(part.path))
        if _is_binary(part.path):
            args.add("--executable", part.path)
        if part.path.endswith(".framework/Info.plist"):
            args.add("--framework_info", part.file)
    for entry in resources.files:
        args.add("--file", entry.file, format = pair_format(sources + "ExecuTorch/" + entry.path))
    for entry in licenses + code:
        args.add("--file", entry.file, format = pair_format(entry.path))
    inputs = [entry.file for entry in parts + licenses + code + resources.files]
    linker_action(
        ctx,
        module = "etbundle.mobile.swift_package",
        arguments = args,
        inputs = inputs,
        outputs = plists.values() + [package, source, archive],
        mnemonic = "EtPackage",
        progress_message = "Packing %{label}",
    )
    frameworks_files = depset([part.file for part in parts] + plists.values())
    resource_files = depset([entry.file for entry in resources.files])
    every = depset(
        [package, source, archive] + [entry.file for entry in licenses + code],
        transitive = [frameworks_files, resource_files],
    )
    return [
        DefaultInfo(files = every),
        OutputGroupInfo(
            archive = depset([archive]),
            frameworks = frameworks_files,
            resources = resource_files,
        ),
        EtAppPackageInfo(
            label = ctx.label,
            kind = "swift_package",
            file = archive,
            apps = apps.values(),
            signing_key = "",
        ),
    ]

def _is_binary(path):
    """Tells whether a path is X.framework/X."""
    folder, _, name = path.rpartition("/")
    return folder.endswith("/%s.framework" % name)

def _apps(ctx):
    """EtAppInfo by platform."""
    by_platform = {}
    for target in ctx.attr.apps:
        app = target[EtAppInfo]
        if app.platform not in _PLATFORMS:
            fail("%s: platform of %s: got %s, expected one of %s." %
                 (ctx.label, app.label, app.platform, ", ".join(_PLATFORMS)))
        if app.platform in by_platform:
            fail("%s: %s and %s are both for %s. Keep one of them." %
                 (ctx.label, by_platform[app.platform].label, app.label, app.platform))
        by_platform[app.platform] = app
    first = by_platform.values()[0]
    for app in by_platform.values():
        for what in ("programs", "assets"):
            if _files(app, what) != _files(first, what):
                fail("%s: %s and %s have different %s. Apps in one package need the same." %
                     (ctx.label, first.label, app.label, "data" if what == "assets" else what))
        if app.runtime.executorch_version != first.runtime.executorch_version:
            fail("%s: %s has ExecuTorch %s, and %s has %s. Apps in one package need the same." % (
                ctx.label,
                first.label,
                first.runtime.executorch_version,
                app.label,
                app.runtime.executorch_version,
            ))
    return by_platform

def _files(app, what):
    """Files that are the same on all platforms, and labels of variants, of which some are for one platform."""
    if what == "assets":
        return app.assets
    variants = {c.program.label: True for info in app.variants for c in info.choices}
    common = [p.program for p in app.programs if p.label not in variants]
    return common + [info.label for info in app.variants]

def _frameworks(ctx, apps):
    """Name of each framework to path in the package to File."""
    frameworks = {}
    names = {}
    for platform, app in apps.items():
        runtime = app.runtime
        names[platform] = []
        for library in [runtime.core] + runtime.libraries + runtime.always:
            if not library.folder.endswith(".framework"):
                continue
            name = library.folder.split("/")[-1].removesuffix(".framework")
            names[platform].append(name)
            folder = "%s.xcframework/%s/%s.framework/" % (name, SLICES[platform], name)
            part = frameworks.setdefault(name, {})
            part[folder + library.file.basename] = library.file
            for file in needed_resources(library, app.programs):
                part[folder + file.path.removeprefix(library.file.dirname + "/")] = file
    first = apps.values()[0]
    if not frameworks:
        fail(("%s: the runtime %s has no dynamic framework. Link its static libraries into your app, and " +
              "take programs and data from et_assets.") % (ctx.label, first.runtime.label))
    for platform, app in apps.items():
        if sorted(names[platform]) != sorted(frameworks):
            fail("%s: frameworks of the runtime %s (%s): got %s, expected those of all platforms: %s." % (
                ctx.label,
                app.runtime.label,
                platform,
                ", ".join(sorted(names[platform])) or "none",
                ", ".join(sorted(frameworks)),
            ))
    return frameworks

def _api_framework(ctx, apps):
    """The C interface, which the sources for Swift import: path in the package to File."""
    part = {}
    for platform, app in apps.items():
        folder = "{0}.xcframework/{1}/{0}.framework/".format(API_FRAMEWORK, SLICES[platform])
        part[folder + API_FRAMEWORK] = app.api_library
        part[folder + "Headers/" + ctx.file._header.basename] = ctx.file._header
        part[folder + "Info.plist"] = ctx.file._info
        part[folder + "Modules/module.modulemap"] = ctx.file._module_map
    return part

def _licenses(ctx, apps, has_api):
    """Path in the package to File."""
    files = [file for app in apps.values() for file in app.runtime.license_files.to_list()]
    files += ctx.files._licenses if has_api else []
    return {"licenses/" + path: file for path, file in license_paths(files).items()}

def _module_name(ctx):
    name = ctx.attr.module_name
    if not name:
        words = ctx.label.name.replace("-", "_").replace(".", "_").split("_")
        name = "".join([w[:1].upper() + w[1:] for w in words])
        name = ("App" if name[:1].isdigit() else "") + name
    if not name or name[0] not in _LETTERS or not name.replace("_", "").isalnum():
        fail("%s: module_name: got \"%s\", expected letters, digits and _, beginning with a letter." % (ctx.label, name))
    return name

et_ios_xcframework = rule(
    implementation = _et_ios_xcframework_impl,
    doc = """The runtime, programs and data of iOS apps as a Swift package: for Xcode, and for rules_apple.

```starlark
et_ios_xcframework(
    name = "chat_ios",
    apps = [":chat_ios_arm64", ":chat_ios_sim_arm64"],
)
```

Outputs, plain files in the folder `<name>`, and the same as `<name>.zip`:

    Package.swift
    <Framework>.xcframework/             the runtime's dynamic frameworks, for devices and simulators
    ExecutorchApp.xcframework/           the C interface executorch_app.h
    Sources/<Module>/<Module>.swift      where the files are: Module.file("programs/llama.pte")
    Sources/<Module>/*.swift             Programs, Program and Chat, which run them
    Sources/<Module>/ExecuTorch/         manifest.json, programs/, data/, assets/
    licenses/                            of the runtime, and of what the C interface contains

Apps with a `main` or `srcs` of their own have neither the C interface nor the classes. A test before
releases compiles them with Swift 6.0 for Linux, and runs a program with them; they never ran on iOS.

Output groups: `archive`, `frameworks` (for `apple_dynamic_xcframework_import`), `resources`. Nothing is
signed: Xcode does that when it embeds the frameworks. See docs/start/ios.md.
""",
    attrs = {
        "apps": attr.label_list(
            allow_empty = False,
            doc = "et_runner_app targets with the same programs and data, for ios_arm64, ios_sim_arm64 or both.",
            mandatory = True,
            providers = [EtAppInfo],
        ),
        "module_name": attr.string(
            doc = "Name of the Swift module; default: the name in camel case.",
        ),
        "_header": attr.label(
            allow_single_file = True,
            default = "//tools/runner:api/executorch_app.h",
        ),
        "_info": attr.label(
            allow_single_file = True,
            default = "//tools/runner/swift:Info.plist",
        ),
        "_licenses": attr.label_list(
            allow_files = True,
            default = RUNNER_LICENSES,
        ),
        "_module_map": attr.label(
            allow_single_file = True,
            default = "//tools/runner/swift:module.modulemap",
        ),
        "_sources": attr.label(
            allow_files = True,
            default = "//tools/runner/swift:sources",
        ),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
