"""et_assets: programs and what they load, for an app that has the runtime already."""

load("//rules:providers.bzl", "EtAssetsInfo", "EtProgramInfo")
load("//rules/private:programs_folder.bzl", "programs_folder")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _et_assets_impl(ctx):
    programs = [t[EtProgramInfo] for t in ctx.attr.programs]
    folder = programs_folder(ctx, root = ctx.label.name + "/assets/", programs = programs, files = ctx.files.data)
    every = depset([entry.file for entry in folder.files])
    return [
        DefaultInfo(files = every, runfiles = ctx.runfiles(transitive_files = every)),
        OutputGroupInfo(manifest = depset([folder.manifest])),
        EtAssetsInfo(
            label = ctx.label,
            files = folder.files,
            manifest = folder.manifest,
            programs = programs,
        ),
    ]

et_assets = rule(
    implementation = _et_assets_impl,
    doc = """Programs and what they load, each file once, for an app that brings ExecuTorch's runtime itself.

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
