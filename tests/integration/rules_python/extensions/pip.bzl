"""Fake of rules_python's extension `pip`: a hub with a py_library for each package of a lock."""

_BUILD = """\
load("@rules_python//python:py_library.bzl", "py_library")

py_library(
    name = "%s",
    srcs = glob(["site-packages/**/*.py"]),
    imports = ["site-packages"],
    visibility = ["//visibility:public"],
)
"""

def _hub_impl(rctx):
    lock = rctx.path(rctx.attr.lock)
    names = [line.split("==")[0] for line in rctx.read(lock).split("\n") if "==" in line]
    for name in names:
        # torch with all that it needs is for tests that only analyze.
        if "torch" in names:
            rctx.file("%s/site-packages/%s/__init__.py" % (name, name.replace("-", "_")))
            rctx.file(name + "/BUILD.bazel", _BUILD % name)
            continue
        done = rctx.execute(
            [rctx.getenv("FAKE_PYTHON") or rctx.which("python3.11"), "-m", "pip", "install", "--require-hashes", "--no-deps"] +
            ["--no-compile", "--target=%s/site-packages" % name, "--requirement=%s" % lock],
        )
        if done.return_code:
            fail(done.stderr)
        rctx.file(name + "/BUILD.bazel", _BUILD % name)

_hub = repository_rule(
    implementation = _hub_impl,
    doc = "A hub, as rules_python calls it. All packages of the lock lie in each: enough for a lock of one.",
    attrs = {"lock": attr.label()},
)

def _pip_impl(module_ctx):
    for module in module_ctx.modules:
        for tag in module.tags.parse:
            _hub(name = tag.hub_name, lock = tag.requirements_lock)

pip = module_extension(
    implementation = _pip_impl,
    tag_classes = {
        "parse": tag_class(attrs = {
            "hub_name": attr.string(mandatory = True),
            "python_version": attr.string(mandatory = True),
            "requirements_lock": attr.label(mandatory = True),
        }),
    },
)
