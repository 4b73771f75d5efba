"""Tests of machines that emulators are for."""

load("@bazel_skylib//lib:unittest.bzl", "asserts", "unittest")
load("//backends:emulator_hosts.bzl", "missing_on")

# Machine to what it is told of an emulator for Linux on x86_64.
_TOLD = {
    "linux_arm64": "The emulator is for Linux on x86_64 only, and this machine is Linux on arm64. Build on such a " +
                   "machine, or with remote execution from one.",
    "linux_x86_64": "",
    "macos_arm64": "The emulator is for Linux on x86_64 only, and this machine is macOS on arm64. Build on such a " +
                   "machine, or with remote execution from one.",
    "windows_x86_64": "The emulator is for Linux on x86_64 only, and this machine is windows_x86_64. Build on such a " +
                      "machine, or with remote execution from one.",
}

def _impl(ctx):
    env = unittest.begin(ctx)
    for host, told in _TOLD.items():
        asserts.equals(env, told, missing_on(host, ["linux_x86_64"], "The emulator is"))
    two = missing_on("linux_arm64", ["linux_x86_64", "macos_arm64"], "It is")
    asserts.true(env, two.startswith("It is for Linux on x86_64 and macOS on arm64 only, and this machine is Linux on"))
    return unittest.end(env)

hosts_test = unittest.make(_impl)
