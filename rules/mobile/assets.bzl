"""et_assets: programs and what they load, for an app that has the runtime already."""

load("//rules:providers.bzl", "EtAssetsInfo", "EtProgramInfo", "EtVariantsInfo")
load("//rules/private:app_files.bzl", "programs_of")
load("//rules/private:programs_folder.bzl", "programs_folder")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _et_assets_impl(ctx):
    taken = programs_of(ctx.attr.programs)
    folder = programs_folder(
        ctx,
        root = ctx.label.name + "/assets/",
        programs = taken.programs,
        variants = taken.variants,
        files = ctx.files.data,
    )
    every = depset([entry.file for entry in folder.files])
    return [
        DefaultInfo(files = every, runfiles = ctx.runfiles(transitive_files = every)),
        OutputGroupInfo(manifest = depset([folder.manifest])),
        EtAssetsInfo(
            label = ctx.label,
            files = folder.files,
            manifest = folder.manifest,
            programs = taken.programs,
            variants = taken.variants,
        ),
    ]

et_assets = rule(
    implementation = _et_assets_impl,
    doc = """Programs and the files that they load, for an app that brings its own ExecuTorch runtime.

```starlark
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

Outputs, as links to the programs' files:

    <name>/assets/manifest.json              programs, files, sizes and sha256
    <name>/assets/programs/<program>.pte     and its manifest
    <name>/assets/data/<file>.ptd            every data file once
    <name>/assets/assets/                    files of `data`

The build does not check whether the app's runtime has the operators and backends that the manifest lists.
et_runner_app checks that for its own runtimes.
""",
    attrs = {
        "data": attr.label_list(
            allow_files = True,
            doc = "Files for `assets/`, with their paths in their packages.",
        ),
        "programs": attr.label_list(
            doc = "The programs, and et_variants of which an app chooses on the device.",
            mandatory = True,
            providers = [[EtProgramInfo], [EtVariantsInfo]],
        ),
    },
    provides = [EtAssetsInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)
