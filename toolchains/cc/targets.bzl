"""Targets of programs: a table of the platforms in //toolchains/platforms."""

def _target(family, cpu, machine, triple, constraints, **more):
    """A row.

    Args:
      family: "linux", "android" or "apple".
      cpu: "arm64" or "x86_64".
      machine: the processor's name in paths of Linux, e.g. "aarch64".
      triple: clang's name of the target.
      constraints: what platforms have that the toolchain is for.
      **more: what a family has besides.

    Returns:
      A struct.
    """
    return struct(
        family = family,
        cpu = cpu,
        machine = machine,
        kernel = "x86" if cpu == "x86_64" else machine,
        triple = triple,
        # Only platforms for apps have the last one: other builds, for whatever platform, keep their compilers.
        constraints = constraints + ["//toolchains/cc:portable"],
        **more
    )

def _android(cpu, machine):
    return _target(
        "android",
        cpu,
        machine,
        machine + "-linux-android26",
        ["@platforms//cpu:" + cpu, "@platforms//os:android"],
        zig_target = machine + "-linux-android.26",
    )

def _linux(cpu, machine, loader):
    return _target(
        "linux",
        cpu,
        machine,
        machine + "-linux-gnu",
        ["@platforms//cpu:" + cpu, "@platforms//os:linux"],
        loader = loader,
        zig_target = machine + "-linux-gnu.2.28",
    )

def _apple(triple, zig_target, tbd_platform, constraints):
    return _target(
        "apple",
        "arm64",
        "aarch64",
        triple,
        ["@platforms//cpu:arm64"] + constraints,
        tbd_platform = tbd_platform,
        zig_target = zig_target,
    )

TARGETS = {
    "android_arm64": _android("arm64", "aarch64"),
    "android_x86_64": _android("x86_64", "x86_64"),
    "ios_arm64": _apple(
        "arm64-apple-ios17.0",
        "aarch64-ios.17.0",
        "arm64-ios",
        ["@platforms//os:ios", "//toolchains/platforms:device"],
    ),
    "ios_sim_arm64": _apple(
        "arm64-apple-ios17.0-simulator",
        "aarch64-ios.17.0-simulator",
        "arm64-ios-simulator",
        ["@platforms//os:ios", "//toolchains/platforms:simulator"],
    ),
    "linux_arm64": _linux("arm64", "aarch64", "/lib/ld-linux-aarch64.so.1"),
    "linux_x86_64": _linux("x86_64", "x86_64", "/lib64/ld-linux-x86-64.so.2"),
    "macos_arm64": _apple(
        "arm64-apple-macosx14.0",
        "aarch64-macos.14.0",
        "arm64-macos",
        ["@platforms//os:macos"],
    ),
}
