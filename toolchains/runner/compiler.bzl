"""compiler_repository: whether this machine has a C++ compiler.

Bazel's own search ends the build where it finds none, and only a program's test asks for it: such a machine can run
tests without a compiler.
"""

_NAMES = ["cc", "gcc", "clang"]

def _compiler_repository_impl(rctx):
    given = rctx.getenv("CC")
    found = any([rctx.which(name) for name in ([given] if given and "/" not in given else []) + _NAMES])
    found = found or bool(given and "/" in given and rctx.path(given).exists)
    rctx.file("BUILD.bazel", "")
    rctx.file("found.bzl", "COMPILER_FOUND = %s\n" % found)

compiler_repository = repository_rule(
    implementation = _compiler_repository_impl,
    doc = "The file found.bzl with COMPILER_FOUND.",
    configure = True,
    environ = ["CC", "PATH"],
)
