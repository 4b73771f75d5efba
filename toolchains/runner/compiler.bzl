"""compiler_repository: whether this machine has a C++ compiler that works.

Bazel's own search ends the build where it finds none. Then zig compiles for this machine, with the toolchain of the
portable platform of its kind: see with_compiler.bzl.
"""

load("//toolchains/exporter:host_python.bzl", "host_platform")

# For pages of the rules that load found.bzl.
_BUILD = """\
load("@bazel_skylib//:bzl_library.bzl", "bzl_library")

bzl_library(
    name = "found_bzl",
    srcs = ["found.bzl"],
    visibility = ["//visibility:public"],
)
"""

_NAMES = ["cc", "gcc", "clang"]

def _works(rctx, path):
    # macOS has a cc that only asks to install one.
    return bool(path) and path.exists and rctx.execute([path, "--version"]).return_code == 0

def _compiler_repository_impl(rctx):
    given = rctx.getenv("CC")
    if given and "/" in given:
        found = _works(rctx, rctx.path(given))
    else:
        found = any([_works(rctx, rctx.which(name)) for name in ([given] if given else []) + _NAMES])
    rctx.file("BUILD.bazel", _BUILD)
    rctx.file("found.bzl", "COMPILER_FOUND = %s\nHOST_PLATFORM = \"%s\"\n" % (found, host_platform(rctx)))

compiler_repository = repository_rule(
    implementation = _compiler_repository_impl,
    doc = "The file found.bzl with COMPILER_FOUND and HOST_PLATFORM, a name in toolchains/platforms.",
    configure = True,
    environ = ["CC", "PATH"],
)
