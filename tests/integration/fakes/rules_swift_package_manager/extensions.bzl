"""swift_deps, whose repository has the names of upstream's products and no code."""

_PRODUCTS = ["backend_xnnpack", "executorch", "kernels_optimized"]

def _package_impl(ctx):
    ctx.file("BUILD.bazel", "".join([
        'filegroup(name = "%s", visibility = ["//visibility:public"])\n' % product
        for product in _PRODUCTS
    ]))

_package = repository_rule(implementation = _package_impl)

def _swift_deps_impl(ctx):
    for module in ctx.modules:
        for package in module.tags.from_package:
            if "github.com/pytorch/executorch" not in ctx.read(package.swift):
                fail("%s does not name upstream's package" % package.swift)
            _package(name = "swiftpkg_executorch")

swift_deps = module_extension(
    implementation = _swift_deps_impl,
    tag_classes = {"from_package": tag_class(attrs = {
        "resolved": attr.label(),
        "swift": attr.label(),
    })},
)
