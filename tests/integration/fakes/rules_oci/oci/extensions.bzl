"""The extension oci, whose images are empty."""

def _image_impl(rctx):
    rctx.file("image")
    rctx.file("BUILD.bazel", """
alias(
    name = "{}",
    actual = "image",
    visibility = ["//visibility:public"],
)
""".format(rctx.attr.image_name))

_image = repository_rule(
    implementation = _image_impl,
    attrs = {"image_name": attr.string(mandatory = True)},
)

def _oci_impl(module_ctx):
    for module in module_ctx.modules:
        for tag in module.tags.pull:
            for platform in [""] + tag.platforms:
                name = tag.name + ("_" + platform.replace("/", "_") if platform else "")
                _image(name = name, image_name = name)

oci = module_extension(
    implementation = _oci_impl,
    tag_classes = {
        "pull": tag_class(attrs = {
            "digest": attr.string(mandatory = True),
            "image": attr.string(mandatory = True),
            "name": attr.string(mandatory = True),
            "platforms": attr.string_list(),
        }),
    },
)
