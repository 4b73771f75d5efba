"""Fake of rules_python's extension `python`: the machine's own interpreter in place of a download."""

def _host_python_impl(rctx):
    interpreter = rctx.getenv("FAKE_PYTHON") or rctx.which("python3.11")
    rctx.symlink(interpreter, "python")
    rctx.file("BUILD.bazel", "exports_files([\"python\"], visibility = [\"//visibility:public\"])\n")

_host_python = repository_rule(
    implementation = _host_python_impl,
    doc = "The repository that rules_python calls python_<version>_host.",
    local = True,
)

def _runtime_impl(rctx):
    rctx.symlink(rctx.getenv("FAKE_PYTHON") or rctx.which("python3.11"), "python3")
    rctx.file("lib/os.py", "")
    rctx.file("BUILD.bazel", """
package(default_visibility = ["//visibility:public"])

exports_files(["python3"])

filegroup(
    name = "files",
    srcs = ["lib/os.py"],
)
""")

_runtime = repository_rule(
    implementation = _runtime_impl,
    doc = "The repository that rules_python calls python_<version>.",
    local = True,
)

def _empty_impl(rctx):
    rctx.file("BUILD.bazel", "")

_empty = repository_rule(implementation = _empty_impl, doc = "A repository that the module itself imports.")

def _python_impl(module_ctx):
    _empty(name = "pythons_hub")
    versions = {t.python_version: None for m in module_ctx.modules for t in m.tags.toolchain}
    for version in versions:
        _host_python(name = "python_%s_host" % version.replace(".", "_"))
        _runtime(name = "python_" + version.replace(".", "_"))

python = module_extension(
    implementation = _python_impl,
    tag_classes = {
        "toolchain": tag_class(attrs = {
            "is_default": attr.bool(),
            "python_version": attr.string(mandatory = True),
        }),
    },
)
