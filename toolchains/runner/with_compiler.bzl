"""The platform that C++ is compiled for, so that there is a compiler for it."""

load("@executorch_compiler//:found.bzl", "COMPILER_FOUND", "HOST_PLATFORM")

# How labels of Bazel's default platforms end: the machine itself.
_HOSTS = ("//tools:host_platform", "//host:host", "local_config_platform//:host")

# What a rule that links for `with_compiler(platforms)` asks for, so that Bazel runs its links where the C++ compiler
# runs. Where there is none, Bazel's own search would end the build; zig's toolchain runs where the exporter does.
CC_TOOLCHAINS = [
    config_common.toolchain_type("@bazel_tools//tools/cpp:toolchain_type", mandatory = False),
] if COMPILER_FOUND else []

_PORTABLE = ["linux_arm64", "linux_x86_64", "macos_arm64"]

def with_compiler(platforms):
    """The platforms of a build, as transitions know them, or those of which zig compiles for this machine.

    Args:
      platforms: list of Labels.

    Returns:
      The list; if it is this machine and no compiler was found, with the portable platform of its kind.
    """
    if COMPILER_FOUND or HOST_PLATFORM not in _PORTABLE:
        return platforms
    if [p for p in platforms if not str(p).endswith(_HOSTS)]:
        return platforms
    return [Label("//toolchains/platforms:" + HOST_PLATFORM)]
