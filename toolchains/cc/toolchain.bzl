"""target_toolchain: the targets of the repository `executorch_cc_<platform>`."""

load("@rules_cc//cc/toolchains:cc_toolchain.bzl", "cc_toolchain")
load("//toolchains/cc:config.bzl", "cc_toolchain_config")
load("//toolchains/cc:targets.bzl", "TARGETS")

_ZIG = "@executorch_zig//:"

def _label(name):
    return str(Label(name))

def target_toolchain(platform):
    """The cc_toolchain of a platform, `toolchain`, with the files that its actions read.

    Args:
      platform: a key of TARGETS.
    """
    target = TARGETS[platform]
    libstdcxx = "@executorch_libstdcxx_%s//:" % platform
    linker = _ZIG + ("apple_linker" if target.family == "apple" else "zig")
    native.filegroup(
        name = "programs",
        srcs = native.glob(["bin/*"]) + [_label(_ZIG + "zig")],
    )
    native.filegroup(
        name = "compiler_files",
        srcs = [
            ":programs",
            _label(_ZIG + "clang"),
            _label(_ZIG + "%s_headers_%s" % (target.family, target.cpu)),
            _label("//toolchains/cc:%s_files" % target.family),
        ] + ([_label(libstdcxx + "headers")] if target.family == "linux" else []),
    )
    native.filegroup(
        name = "linker_files",
        srcs = native.glob(["lib/*"]) + [
            ":programs",
            _label(linker),
        ] + ([_label(libstdcxx + "libraries")] if target.family == "linux" else []),
    )
    native.filegroup(
        name = "all_files",
        srcs = [
            ":compiler_files",
            ":linker_files",
        ],
    )
    cc_toolchain_config(
        name = "config",
        libstdcxx = _label(libstdcxx + "marker") if target.family == "linux" else None,
        platform = platform,
        stubs = native.glob(["lib/*"]),
    )
    cc_toolchain(
        name = "toolchain",
        all_files = ":all_files",
        ar_files = ":programs",
        as_files = ":compiler_files",
        compiler_files = ":compiler_files",
        dwp_files = ":programs",
        linker_files = ":linker_files",
        objcopy_files = ":programs",
        strip_files = ":programs",
        supports_param_files = True,
        toolchain_config = ":config",
        toolchain_identifier = "executorch_" + platform,
        visibility = ["//visibility:public"],
    )
