"""et_assets: programs and what they load, for an app that has the runtime already."""

load("//rules:providers.bzl", "EtAssetsInfo", "EtProgramInfo")
load("//rules/private:app_files.bzl", "add_programs", "below_its_package", "data_files", "package_path")
load("//rules/private:link_action.bzl", "linker_action")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _et_assets_impl(ctx):
    programs = [t[EtProgramInfo] for t in ctx.attr.programs]
    places = _places(ctx, programs)
    root = ctx.label.name + "/assets/"
    files = []
    for place, file in places.items():
        placed = ctx.actions.declare_file(root + place)
        ctx.actions.symlink(output = placed, target_file = file)
        files.append(struct(path = place, file = placed))
    manifest = ctx.actions.declare_file(root + "manifest.json")
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--name", ctx.label.name)
    args.add("--exporter_version", ctx.toolchains[EXPORTER_TOOLCHAIN].exporter.executorch_version)
    inputs = add_programs(args, programs)
    args.add_all(ctx.files.data, map_each = below_its_package, before_each = "--asset")
    args.add("--manifest", manifest)
    linker_action(
        ctx,
        module = "etbundle.assets",
        arguments = args,
        inputs = inputs + ctx.files.data,
        outputs = [manifest],
        mnemonic = "EtAssets",
        progress_message = "Describing %{label}",
    )
    every = depset([placed.file for placed in files] + [manifest])
    return [
        DefaultInfo(files = every, runfiles = ctx.runfiles(transitive_files = every)),
        OutputGroupInfo(manifest = depset([manifest])),
        EtAssetsInfo(
            label = ctx.label,
            files = files + [struct(path = "manifest.json", file = manifest)],
            manifest = manifest,
            programs = programs,
        ),
    ]

def _places(ctx, programs):
    """Path in the assets to the file that is placed there."""
    places = {}
    for program in programs:
        _place(ctx, places, "programs/%s.pte" % program.label.name, program.program)
        _place(ctx, places, "programs/%s.manifest.json" % program.label.name, program.manifest)
    for file in data_files(programs):
        _place(ctx, places, "data/" + file.basename, file)
    for file in ctx.files.data:
        _place(ctx, places, "assets/" + package_path(file), file)
    return places

def _place(ctx, places, place, file):
    other = places.setdefault(place, file)
    if other != file:
        fail("%s: two files would be %s: %s of %s and %s of %s. Rename one of the targets." %
             (ctx.label, place, other.short_path, other.owner, file.short_path, file.owner))

et_assets = rule(
    implementation = _et_assets_impl,
    doc = """Programs and what they load, each file once, for an app that brings ExecuTorch's runtime itself.

```python
et_assets(
    name = "chat_files",
    data = [":tokenizer"],
    programs = [":llama_xnnpack", ":assistant_xnnpack"],
)
android_binary(
    name = "chat",
    assets = [":chat_files"],
    assets_dir = "chat_files/assets",
    nocompress_extensions = [".pte", ".ptd"],
    …
)
```

Outputs, plain files that are links to what the programs' targets made:

    <name>/assets/manifest.json              programs, files, sizes and sha256
    <name>/assets/programs/<program>.pte     and its manifest
    <name>/assets/data/<file>.ptd            every data file once
    <name>/assets/assets/                    files of `data`

Whether the app's runtime has the operators and backends that the manifest lists is not checked: that is
what et_runner_app does, for runtimes that it knows.
""",
    attrs = {
        "data": attr.label_list(
            allow_files = True,
            doc = "Files that go to `assets/`, below which they keep their path in their package.",
        ),
        "programs": attr.label_list(
            doc = "The programs.",
            mandatory = True,
            providers = [EtProgramInfo],
        ),
    },
    provides = [EtAssetsInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)
