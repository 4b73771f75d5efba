"""et_release: apps and programs as they are shipped, with what is in them and their checksums."""

load("//rules:providers.bzl", "EtAppInfo", "EtAppPackageInfo", "EtProgramInfo", "EtReleaseInfo", "EtVariantsInfo")
load("//rules/private:app_files.bzl", "programs_of")
load("//rules/private:programs_folder.bzl", "describe_programs", "link_file", "link_programs")
load(
    "//rules/private:release_arguments.bzl",
    "add_app",
    "add_files",
    "add_model",
    "add_package",
    "add_program",
    "backend_packages",
    "metadata_of",
    "model_files",
    "model_of",
)
load("//rules/private:stamping.bzl", "STAMPING_ATTRIBUTES", "status_files")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "readable_label", "runfiles_path")
load("//toolchains/python:python_tool.bzl", "action_environment")

_MANIFEST = "manifest.json"
_SBOM = "sbom.cdx.json"
_CHECKSUMS = "SHA256SUMS"
_CHANGES = "changes.json"

def _et_release_impl(ctx):
    apps = [t[EtAppInfo] for t in ctx.attr.apps if EtAppInfo in t]
    packages = [t[EtAppPackageInfo] for t in ctx.attr.apps if EtAppPackageInfo in t]
    taken = programs_of(ctx.attr.programs)
    programs = taken.programs

    # As they are listed: each is taken once.
    _check(ctx, apps + packages, [t[EtProgramInfo] for t in ctx.attr.programs if EtProgramInfo in t], bool(programs))
    entries = _entries(ctx, apps, packages)
    root = ctx.label.name + "/"
    files = [struct(path = path, file = link_file(ctx, root + path, entry.file)) for path, entry in entries.items()]
    files += link_programs(ctx, root = root, programs = programs, files = ctx.files.data)
    loose = None
    if programs or ctx.files.data:
        loose = ctx.actions.declare_file(ctx.label.name + ".programs.manifest.json")
        describe_programs(
            ctx,
            manifest = loose,
            programs = programs,
            variants = taken.variants,
            files = ctx.files.data,
        )
    names = [_MANIFEST, _SBOM, _CHECKSUMS] + ([_CHANGES] if ctx.attr.previous else [])
    lists = {name: ctx.actions.declare_file(root + name) for name in names}
    _describe(ctx, entries, apps, packages, programs, files, loose, lists)
    every = files + [struct(path = name, file = file) for name, file in lists.items()]
    copy = _copy(ctx, lists[_CHECKSUMS])
    outputs = [entry.file for entry in every]
    return [
        DefaultInfo(
            executable = copy,
            files = depset(outputs),
            runfiles = ctx.runfiles(outputs),
        ),
        OutputGroupInfo(
            changes = depset([lists[_CHANGES]] if _CHANGES in lists else []),
            checksums = depset([lists[_CHECKSUMS]]),
            manifest = depset([lists[_MANIFEST]]),
            sbom = depset([lists[_SBOM]]),
        ),
        EtReleaseInfo(
            label = ctx.label,
            files = every,
            manifest = lists[_MANIFEST],
            sbom = lists[_SBOM],
            checksums = lists[_CHECKSUMS],
        ),
    ]

def _check(ctx, apps, programs, has_programs):
    if not apps and not has_programs:
        fail("%s: nothing to release. Give apps, programs or both." % ctx.label)
    for attribute, targets in (("apps", apps), ("programs", programs)):
        labels = {}
        for entry in targets:
            if entry.label in labels:
                fail("%s: %s lists %s twice (once by another name). Remove one of them." % (ctx.label, attribute, entry.label))
            labels[entry.label] = True
    named = {}
    for app in apps:
        # An APK or its like is told from others by its file alone.
        if not hasattr(app, "platform"):
            continue
        other = named.setdefault((app.platform, app.name), app)
        if other != app:
            fail(("%s: %s and %s are both called \"%s\" and for %s, so their archives would have one name. " +
                  "Rename one of them.") % (ctx.label, other.label, app.label, app.name, app.platform))

def _entries(ctx, apps, packages):
    """Path in the release to struct(file, label) of archives and packages."""
    entries = {}
    for app in apps:
        suffix = app.archive.basename.removeprefix(app.name)
        stem = app.name if app.name.endswith(app.platform) else "%s-%s" % (app.name, app.platform)
        _add(ctx, entries, stem + suffix, app.archive, app.label)
    for package in packages:
        _add(ctx, entries, package.file.basename, package.file, package.label)
    return entries

def _add(ctx, entries, path, file, label):
    if path in entries:
        fail("%s: %s and %s would both be \"%s\" in the release. Rename one of them." %
             (ctx.label, entries[path].label, label, path))
    entries[path] = struct(file = file, label = label)

def _describe(ctx, entries, apps, packages, programs, files, loose, lists):
    """EtRelease: the lists of a release."""
    path_by_label = {entry.label: path for path, entry in entries.items()}
    every_app = {app.label: app for app in apps}
    for package in packages:
        every_app.update({app.label: app for app in package.apps})
    every_program = {program.label: program for program in programs}
    for app in every_app.values():
        every_program.update({program.label: program for program in app.programs})
    models = [model_of(program) for program in every_program.values()]
    every_model = {model.label: model for model in models}
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    metadata = metadata_of(exporter)
    layers = backend_packages(every_program.values())
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--version", ctx.attr.version)
    args.add("--executorch", exporter.executorch_version)
    args.add_all(metadata, before_each = "--metadata")
    args.add("--origins", ctx.file._origins)
    for entry in layers:
        args.add_all("--backend_packages", [entry.label] + entry.metadata_files.to_list())
    for app in every_app.values():
        add_app(args, app, file = path_by_label.get(app.label, ""))
    for entry in packages:
        add_package(args, entry, file = path_by_label[entry.label])
    for program in every_program.values():
        add_program(args, program)
    for model in every_model.values():
        add_model(args, model)
    add_files(args, files)
    if loose:
        args.add("--loose", loose)
    args.add("--manifest", lists[_MANIFEST])
    args.add("--sbom", lists[_SBOM])
    args.add("--checksums", lists[_CHECKSUMS])
    previous = []
    if ctx.attr.previous:
        previous.append(_previous_manifest(ctx, ctx.attr.previous))
        args.add("--previous", previous[0])
        args.add("--changes", lists[_CHANGES])
    status = status_files(ctx)
    if status:
        args.add("--stable_status", status.stable)
        args.add("--volatile_status", status.volatile)
    ctx.actions.run(
        executable = ctx.attr._tool[DefaultInfo].files_to_run,
        arguments = [args],
        inputs = depset(
            [ctx.file._origins] + previous + ([loose] if loose else []) + ([status.stable, status.volatile] if status else []) +
            [entry.file for entry in files] + [app.manifest for app in every_app.values()] + metadata +
            [f for model in every_model.values() for f in model_files(model)],
            transitive = [entry.metadata_files for entry in layers],
        ),
        outputs = lists.values(),
        mnemonic = "EtRelease",
        progress_message = "Listing what is in %{label}",
        env = action_environment(ctx),
        # The tool brings its own interpreter.
        toolchain = None,
    )

def _previous_manifest(ctx, target):
    """The manifest.json of an earlier release."""
    if EtReleaseInfo in target:
        return target[EtReleaseInfo].manifest
    manifests = [
        (file.short_path.count("/"), file.short_path, file)
        for file in target[DefaultInfo].files.to_list()
        if file.basename == _MANIFEST
    ]
    if not manifests:
        fail(("%s: previous: got %s without a %s, expected an earlier release: its %s, a folder with it, or an " +
              "et_release.") % (ctx.label, target.label, _MANIFEST, _MANIFEST))
    return sorted(manifests, key = lambda entry: entry[:2])[0][2]

def _copy(ctx, checksums):
    """The script that `bazel run` starts."""
    script = ctx.actions.declare_file(ctx.label.name + ".copy.sh")
    ctx.actions.expand_template(
        template = ctx.file._copy,
        output = script,
        is_executable = True,
        substitutions = {
            "%{label}": readable_label(ctx.label),
            "%{release}": runfiles_path(checksums).rsplit("/", 1)[0],
        },
    )
    return script

et_release = rule(
    implementation = _et_release_impl,
    doc = """A release of apps and programs: archives, a manifest, a bill of materials, checksums.

```starlark
et_release(
    name = "release",
    apps = [":chat_linux_arm64", ":chat_macos_arm64", ":chat_apk"],
    programs = [":assistant_xnnpack"],    # for apps that are out already
    version = "1.4.0",
)
```

Outputs, in the folder `<name>`:

    <app>-<platform>.tar.zst     an archive per app (.zip for Apple's platforms); .apk, .aar, .zip of packages
    programs/<program>.pte       of `programs`
    data/<file>.ptd              what those load, every file once
    assets/                      files of `data`
    manifest.json                all files with size and sha256, versions, recipes, who shares which weights
    sbom.cdx.json                CycloneDX 1.6: libraries, weights, and the packages that made them
    SHA256SUMS                   for `sha256sum -c`
    changes.json                 with `previous`: a manifest of the files that changed since

The same inputs give the same bytes. Only stamped builds contain the source's revision.
`bazel run //x:release -- FOLDER` copies the release. Output groups: `manifest`, `sbom`, `checksums`, `changes`. See
docs/howto/apps.md.
""",
    attrs = STAMPING_ATTRIBUTES | {
        "apps": attr.label_list(
            doc = "et_runner_app, et_android_apk, et_android_aar and et_ios_xcframework targets.",
            providers = [[EtAppInfo], [EtAppPackageInfo]],
        ),
        "data": attr.label_list(
            allow_files = True,
            doc = "Files for `assets/`, with their paths in their packages: what `programs` need beside " +
                  "their weights, such as a tokenizer.",
        ),
        "previous": attr.label(
            allow_files = True,
            doc = "An earlier release, to compare with: its `manifest.json`, a folder with that, or an et_release.",
        ),
        "programs": attr.label_list(
            doc = "Programs to ship as files, in addition to those in apps; of et_variants all of them.",
            providers = [[EtProgramInfo], [EtVariantsInfo]],
        ),
        "version": attr.string(doc = "Version of the release, for manifest and bill of materials: \"1.4.0\"."),
        "_copy": attr.label(
            allow_single_file = True,
            default = "//rules/private:release_copy.sh",
        ),
        "_origins": attr.label(
            allow_single_file = True,
            default = "@executorch_models//:origins.tsv",
        ),
        "_tool": attr.label(
            cfg = "exec",
            default = "//tools/etbundle/release:tool",
            executable = True,
        ),
    },
    executable = True,
    provides = [EtReleaseInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)
