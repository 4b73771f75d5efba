"""extracted_file: one file out of a zip."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")

def _extracted_file_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--archive", ctx.file.archive)
    args.add("--member", ctx.attr.path)
    args.add("--output", output)
    linker_action(
        ctx,
        module = "etbundle.extract",
        arguments = args,
        inputs = [ctx.file.archive],
        outputs = [output],
        mnemonic = "EtExtract",
        progress_message = "Extracting %{output}",
    )
    return [DefaultInfo(executable = output)]

extracted_file = rule(
    implementation = _extracted_file_impl,
    doc = "A program that lies in a zip, e.g. in a .jar.",
    attrs = {
        "archive": attr.label(allow_single_file = True, doc = "The zip.", mandatory = True),
        "path": attr.string(doc = "Path in it.", mandatory = True),
    },
    executable = True,
    toolchains = [EXPORTER_TOOLCHAIN],
)
