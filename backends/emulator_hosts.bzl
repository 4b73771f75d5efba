"""emulator_hosts: the machines that an emulator is for, and what others are told at analysis."""

load("@executorch_compiler//:found.bzl", "HOST_PLATFORM")
load("//toolchains/exporter:packages.bzl", "et_packages")

visibility([
    "//backends/...",
    "//tests/analysis/...",
])

# Kinds of machines, as in //toolchains/platforms, in words.
_WORDS = {
    "linux_arm64": "Linux on arm64",
    "linux_x86_64": "Linux on x86_64",
    "macos_arm64": "macOS on arm64",
}

def missing_on(host, hosts, what):
    """Says that something is not for a machine.

    Args:
      host: kind of the machine that builds.
      hosts: list of the kinds that it is for.
      what: its name, as the subject of a sentence.

    Returns:
      `missing` of an et_packages; empty: it is for the machine.
    """
    if host in hosts:
        return ""
    return ("%s for %s only, and this machine is %s. Build on such a machine, or with remote execution from one.") % (
        what,
        " and ".join([_WORDS[known] for known in hosts]),
        _WORDS.get(host, host),
    )

def emulator_for(emulator, *, hosts, what, name = "no_emulator"):
    """Keeps emulators to the machines that they are for.

    Args:
      emulator: labels for `et_backend(emulator = …)`.
      hosts: list of kinds of machines, as in //toolchains/platforms.
      what: the emulator's name, as the subject of a sentence, with its verb.
      name: of the target that stands for it elsewhere: what runs a program fails at analysis, and fetches nothing.

    Returns:
      List of labels.
    """
    missing = missing_on(HOST_PLATFORM, hosts, what)
    if not missing:
        return emulator
    et_packages(
        name = name,
        missing = missing,
        stamp = "BUILD.bazel",
        visibility = ["//visibility:public"],
    )
    return [":" + name]
