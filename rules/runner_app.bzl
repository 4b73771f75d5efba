"""et_runner_app: binary, programs and shared files for one platform."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:providers.bzl", "EtAppInfo", "EtProgramInfo", "EtRuntimeInfo", "EtVariantsInfo")
load("//rules/private:app_files.bzl", "RUNNER_LICENSES", "add_programs", "below_its_package", "license_paths", "needed_resources", "programs_of")
load("//rules/private:app_fit.bzl", "check_fit", "fit")
load("//rules/private:app_link.bzl", "cc_infos", "compile_main", "link_app")
load("//rules/private:app_report.bzl", "app_report")
load("//rules/private:kernels.bzl", "check_kernels", "kernels_aspect")
load("//rules/private:platform_transition.bzl", "platform_transition")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/python:paths.bzl", "pair_format", "runfiles_path")
load("//toolchains/python:python_tool.bzl", "library_path_lines")
load("//toolchains/runner:with_compiler.bzl", "CC_TOOLCHAINS")
load("//toolchains/runtime:import_names.bzl", "API_FRAMEWORK")
load("//toolchains/runtime:origins.bzl", "RUNNER_PACKAGES")

_SOURCES = [".c", ".cc", ".cpp", ".cxx", ".h", ".hpp"]

def _et_runner_app_impl(ctx):
    runtime = _one(ctx.attr._runtime)[EtRuntimeInfo]
    taken = programs_of(ctx.attr.programs, runtime.platform)
    programs = taken.programs
    exporter_version = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter.executorch_version
    check_fit(ctx, programs = programs, runtime = runtime, exporter_version = exporter_version)
    check_kernels(ctx.label, ctx.attr.kernels)
    fitted = fit(
        ctx,
        programs = programs,
        runtime = runtime,
        kernels = ctx.attr.kernels,
        etdump = ctx.attr.etdump,
    )
    main = _main(ctx, runtime)
    name = ctx.label.name
    binary = link_app(ctx, runtime = runtime, fitted = fitted, name = name + ".bin/runner", **main)
    report = [fitted.json]
    directory = ctx.actions.declare_directory(name)
    manifest = ctx.actions.declare_file(name + ".manifest.json")
    _write_app(ctx, taken, runtime, exporter_version, fitted, binary, directory, manifest)
    report += app_report(ctx, programs = programs, manifest = manifest)
    archive = _archive(ctx, runtime, directory)
    layers = [layer for layer in _packages(programs) if layer.library_paths]
    launcher = _launcher(ctx, runtime, directory, layers)
    return [
        DefaultInfo(
            executable = launcher,
            files = depset([directory, archive]),
            runfiles = ctx.runfiles(
                [directory, launcher],
                transitive_files = depset(transitive = [layer.files for layer in layers]),
            ),
        ),
        OutputGroupInfo(
            archive = depset([archive]),
            binary = depset([binary]),
            directory = depset([directory]),
            manifest = depset([manifest]),
            report = depset(report + [manifest]),
        ),
        EtAppInfo(
            label = ctx.label,
            name = name,
            platform = runtime.platform,
            directory = directory,
            archive = archive,
            manifest = manifest,
            fit = fitted.json,
            programs = programs,
            variants = taken.variants,
            assets = ctx.files.data,
            runtime = runtime,
            runtime_libraries = depset([l.file for l in fitted.libraries if l.folder]),
            libraries = fitted.libraries,
            linked_packages = _linked_packages(ctx),
            etdump = ctx.attr.etdump,
            api_library = _api_library(ctx, runtime, fitted),
        ),
    ]

def _one(transitioned):
    """The target of a label attribute, which a transition makes a list."""
    return transitioned[0] if type(transitioned) == "list" else transitioned

def _packages(programs):
    """Packages of the programs' backends, each once."""
    backends = depset(transitive = [program.backends for program in programs])
    return {p.label: p for backend in backends.to_list() for p in backend.packages}.values()

def _api_library(ctx, runtime, fitted):
    """The C interface as a shared library; None where no package needs it, and where main() is another."""
    apple = runtime.platform.startswith("ios_")
    if not apple and not runtime.platform.startswith("android_"):
        return None
    return _shared_library(
        ctx,
        runtime,
        fitted,
        name = "executorch_app",
        mains = [_one(ctx.attr._api)[CcInfo]],
        install_name = "@rpath/{0}.framework/{0}".format(API_FRAMEWORK) if apple else None,
    )

def _shared_library(ctx, runtime, fitted, *, name, mains, install_name = None):
    if ctx.attr.main or ctx.attr.srcs:
        return None
    return link_app(
        ctx,
        cc_toolchain = _one(ctx.attr._cc_toolchain)[cc_common.CcToolchainInfo],
        mains = mains + cc_infos(ctx.attr.kernels),
        runtime = runtime,
        fitted = fitted,
        name = ctx.label.name + ".bin/" + name,
        shared = True,
        install_name = install_name,
    )

def _linked_packages(ctx):
    """Lists the packages in the binary beside the runtime, as far as they are known."""
    own = ctx.attr.main or ctx.attr.srcs
    for purl in ctx.attr.linked_packages:
        if not purl.startswith("pkg:") or "@" not in purl:
            fail(("%s: linked_packages: got \"%s\", expected a package URL with a version such as " +
                  "\"pkg:github/opencv/opencv@4.12.0\".") % (ctx.label, purl))
    return ({} if own else RUNNER_PACKAGES) | ctx.attr.linked_packages

def _recorder(ctx):
    """The part of the runner that writes ETDump files."""
    return [_one(ctx.attr._runner_etdump)[CcInfo]] if ctx.attr.etdump else []

def _main(ctx, runtime):
    """Returns the binary's main() as arguments of `link_app`; a main() of the user's is compiled."""
    own = ctx.attr.main or ctx.attr.srcs
    if ctx.attr.main and ctx.attr.srcs:
        fail("%s: main and srcs both have a main(). Keep one of them." % ctx.label)
    mains = [_one(ctx.attr.main)[CcInfo]] if ctx.attr.main else []
    if not own:
        mains = [_one(ctx.attr._runner)[CcInfo]] + _recorder(ctx)
    if not own and ctx.attr.deps:
        fail("%s: deps have no effect without main or srcs. Remove them, or give a main()." % ctx.label)
    cc_toolchain = _one(ctx.attr._cc_toolchain)[cc_common.CcToolchainInfo]
    mains += cc_infos(ctx.attr.deps) + cc_infos(ctx.attr.kernels)
    compiled = compile_main(
        ctx,
        cc_toolchain = cc_toolchain,
        sources = ctx.files.srcs,
        infos = [runtime.headers] + mains,
    )
    return dict(cc_toolchain = cc_toolchain, compiled = compiled, mains = mains)

def _write_app(ctx, taken, runtime, exporter_version, fitted, binary, directory, manifest):
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--platform", runtime.platform)
    args.add("--exporter_version", exporter_version)
    args.add("--runtime_version", runtime.executorch_version)
    args.add("--fit", fitted.json)
    args.add("--binary", binary)
    inputs = [fitted.json, binary]
    for library in fitted.libraries:
        if library.folder:
            files = [library.file] + needed_resources(library, taken.programs)
            args.add_all("--library", [library.label, library.folder] + files)
            inputs += files
    inputs += add_programs(args, taken.programs, taken.variants)
    args.add_all(ctx.files.data, map_each = below_its_package, before_each = "--asset")
    inputs += ctx.files.data
    licenses = license_paths(ctx.files._licenses + runtime.license_files.to_list())
    for path, file in licenses.items():
        args.add("--license", file, format = pair_format(path))
    args.add_all("--directory", [directory], expand_directories = False)
    args.add("--manifest", manifest)
    linker_action(
        ctx,
        module = "etbundle.app",
        arguments = args,
        inputs = inputs + licenses.values(),
        outputs = [directory, manifest],
        mnemonic = "EtApp",
        progress_message = "Putting %{label} together",
    )

def _archive(ctx, runtime, directory):
    apple = runtime.platform.startswith("ios_") or runtime.platform.startswith("macos_")
    archive = ctx.actions.declare_file(ctx.label.name + (".zip" if apple else ".tar.zst"))
    args = ctx.actions.args()
    args.add("--output", archive)
    args.add_all("--app", [directory], expand_directories = False)
    args.add("--prefix", ctx.label.name)
    linker_action(
        ctx,
        module = "etbundle.app_archive",
        arguments = args,
        inputs = [directory],
        outputs = [archive],
        mnemonic = "EtPackage",
        progress_message = "Packing %{output}",
    )
    return archive

def _launcher(ctx, runtime, directory, layers):
    """A script for `bazel run`."""
    script = ctx.actions.declare_file(ctx.label.name + ".run.sh")
    ctx.actions.expand_template(
        template = ctx.file._launcher,
        output = script,
        is_executable = True,
        substitutions = {
            "%{app}": runfiles_path(directory),
            "%{label}": str(ctx.label).removeprefix("@@"),
            "%{library_path}": "".join(library_path_lines([path for layer in layers for path in layer.library_paths])),
            "%{platform}": runtime.platform,
        },
    )
    return script

et_runner_app = rule(
    implementation = _et_runner_app_impl,
    doc = """A binary with programs and the files that they load, for one platform.

```starlark
et_runner_app(
    name = "chat_linux_arm64",
    data = [":tokenizer"],
    platform = "@rules_executorch//toolchains/platforms:linux_arm64",
    programs = [":llama_xnnpack", ":assistant_xnnpack"],
)
```

Outputs: the directory `<name>`, and the same as `<name>.tar.zst` (`.zip` for Apple's platforms):

    runner                     the binary
    lib/, Frameworks/          the runtime's libraries that the programs need, and no others
    programs/<program>.pte
    data/<file>.ptd            every data file once, however many programs load it
    assets/                    files of `data`
    licenses/
    manifest.json              programs, files, sizes and sha256

Output groups: `archive`, `binary`, `directory`, `manifest`, `report`: a page and JSON on the app's bytes and
programs, and JSON on which library has what the programs use. `bazel run` starts the app if the machine can: see
docs/howto/apps.md.

Before linking, the build checks that the runtime has the programs' backends (at analysis) and operators, that
no operator is registered twice, and that the runtime isn't older than the exporter.

Apps for all platforms share the programs of the build's configuration.
""",
    attrs = {
        "data": attr.label_list(
            allow_files = True,
            doc = "Files for `assets/`, with their paths in their packages: a tokenizer, labels, pictures.",
        ),
        "deps": attr.label_list(
            cfg = platform_transition,
            providers = [CcInfo],
            doc = "Libraries that `srcs` need.",
        ),
        "etdump": attr.bool(
            doc = "Add the runtime's library that records events, for the runner's " +
                  "--etdump.",
        ),
        "kernels": attr.label_list(
            aspects = [kernels_aspect],
            cfg = platform_transition,
            providers = [CcInfo],
            doc = "cc_library targets (alwayslink = True) that register operators of your own, or " +
                  "operators that the runtime lacks.",
        ),
        "linked_packages": attr.string_dict(
            doc = "Packages that `main`, `srcs`, `deps` and `kernels` are linked with, for SBOMs of releases: " +
                  "package URL (\"pkg:github/opencv/opencv@4.12.0\") to SPDX expression of the license, or \"\".",
        ),
        "main": attr.label(
            cfg = platform_transition,
            providers = [CcInfo],
            doc = "A cc_library (alwayslink = True) with a main() that replaces the runner. It includes " +
                  "headers of @rules_executorch//toolchains/runtime:headers.",
        ),
        "platform": attr.label(
            providers = [platform_common.PlatformInfo],
            doc = "The app's platform, such as one of @rules_executorch//toolchains/platforms; default: the " +
                  "build's target platform.",
        ),
        "programs": attr.label_list(
            providers = [[EtProgramInfo], [EtVariantsInfo]],
            doc = "Programs of the app, and et_variants of which it chooses on the device. May be empty if a custom " +
                  "main() brings them.",
        ),
        "srcs": attr.label_list(
            allow_files = _SOURCES,
            doc = "C++17 and C sources with a main() that replaces the runner, and their headers.",
        ),
        "_api": attr.label(
            cfg = platform_transition,
            default = "//tools/runner:current_api",
        ),
        "_cc_toolchain": attr.label(
            cfg = platform_transition,
            default = "@bazel_tools//tools/cpp:current_cc_toolchain",
        ),
        "_launcher": attr.label(
            allow_single_file = True,
            default = "//rules/private:app_launcher.sh",
        ),
        "_licenses": attr.label_list(
            allow_files = True,
            default = RUNNER_LICENSES,
        ),
        "_runner": attr.label(
            cfg = platform_transition,
            default = "//tools/runner:runner_main",
        ),
        "_runner_etdump": attr.label(
            cfg = platform_transition,
            default = "//tools/runner:etdump",
        ),
        "_runtime": attr.label(
            cfg = platform_transition,
            default = "//toolchains/runtime:current",
        ),
        # Each action runs on a platform that fits its toolchain: links where the C++ compiler runs.
        "_use_auto_exec_groups": attr.bool(default = True),
    },
    executable = True,
    fragments = ["cpp"],
    provides = [EtAppInfo],
    toolchains = [EXPORTER_TOOLCHAIN] + CC_TOOLCHAINS,
)
