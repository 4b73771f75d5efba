"""oci_image, which writes down what the real one would put into the image's configuration."""

def _oci_image_impl(ctx):
    written = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(written, json.encode({
        "base": ctx.file.base.short_path,
        "entrypoint": ctx.attr.entrypoint,
        "layers": [layer.short_path for layer in ctx.files.tars],
    }))
    return [DefaultInfo(files = depset([written] + ctx.files.tars))]

oci_image = rule(
    implementation = _oci_image_impl,
    doc = "Writes `<name>.json`: base, entry point and layers, which are built.",
    attrs = {
        "base": attr.label(allow_single_file = True, mandatory = True),
        "entrypoint": attr.string_list(),
        "tars": attr.label_list(allow_files = [".tar", ".tar.gz", ".tar.zst"]),
    },
)
