"""maven, whose repository has a fake of org.pytorch:executorch-android."""

_ARTIFACT = "org.pytorch:executorch-android:"

def _artifacts_impl(ctx):
    ctx.symlink(ctx.path(Label("//:java/org/pytorch/executorch/Module.java")).dirname, "executorch")
    ctx.file("BUILD.bazel", """\
filegroup(
    name = "org_pytorch_executorch_android",
    srcs = glob(["executorch/**/*.java"]),
    visibility = ["//visibility:public"],
)
""")

_artifacts = repository_rule(implementation = _artifacts_impl)

def _maven_impl(ctx):
    for module in ctx.modules:
        for install in module.tags.install:
            if [a for a in install.artifacts if not a.startswith(_ARTIFACT)]:
                fail("got %s, expected %s… only" % (install.artifacts, _ARTIFACT))
            _artifacts(name = "maven")

maven = module_extension(
    implementation = _maven_impl,
    tag_classes = {"install": tag_class(attrs = {
        "aar_import_bzl_label": attr.string(),
        "artifacts": attr.string_list(),
        "repositories": attr.string_list(),
        "use_starlark_android_rules": attr.bool(),
    })},
)
