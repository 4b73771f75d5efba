"""Tests of the toolchains that platforms get."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtRuntimeInfo")

_CC = "@bazel_tools//tools/cpp:toolchain_type"

CompilerInfo = provider(doc = "The compiler of a platform.", fields = {"id": "String; empty: there is none."})

def _compiler_impl(ctx):
    toolchain = ctx.toolchains[_CC]
    return [CompilerInfo(id = toolchain.cc.toolchain_id if toolchain else "")]

compiler = rule(
    implementation = _compiler_impl,
    doc = "Prints the compiler of a cc_binary of the platform.",
    toolchains = [config_common.toolchain_type(_CC, mandatory = False)],
)

def _ours_impl(ctx):
    env = analysistest.begin(ctx)
    found = analysistest.target_under_test(env)[CompilerInfo].id
    asserts.equals(env, ctx.attr.expected, found if found.startswith("executorch_") else "")
    return analysistest.end(env)

def _compiler_test(platform):
    return analysistest.make(
        _ours_impl,
        attrs = {"expected": attr.string(doc = "Identifier of the toolchain of ours; empty: another one, or none.")},
        config_settings = {"//command_line_option:platforms": [platform]},
    )

def _runtime_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.equals(env, ctx.attr.expected, analysistest.target_under_test(env)[EtRuntimeInfo].platform)
    return analysistest.end(env)

def _runtime_test(platform, cpu = None):
    return analysistest.make(
        _runtime_impl,
        attrs = {"expected": attr.string(doc = "Platform of the runtime.")},
        config_settings = {"//command_line_option:platforms": [platform]} |
                          ({"//command_line_option:cpu": cpu} if cpu else {}),
    )

def _ready_made(name):
    return str(Label("//toolchains/platforms:" + name))

def _own(name):
    return str(Label("//tests/analysis/platforms:" + name))

ready_made_android_arm64_test = _compiler_test(_ready_made("android_arm64"))
ready_made_ios_sim_arm64_test = _compiler_test(_ready_made("ios_sim_arm64"))
ready_made_linux_arm64_test = _compiler_test(_ready_made("linux_arm64"))
ready_made_macos_arm64_test = _compiler_test(_ready_made("macos_arm64"))

READY_MADE_TESTS = {
    "android_arm64": ready_made_android_arm64_test,
    "ios_sim_arm64": ready_made_ios_sim_arm64_test,
    "linux_arm64": ready_made_linux_arm64_test,
    "macos_arm64": ready_made_macos_arm64_test,
}

own_android_arm64_test = _compiler_test(_own("android_arm64"))
own_android_x86_64_test = _compiler_test(_own("android_x86_64"))
own_ios_arm64_test = _compiler_test(_own("ios_arm64"))
own_linux_arm64_test = _compiler_test(_own("linux_arm64"))
own_linux_x86_64_test = _compiler_test(_own("linux_x86_64"))
own_macos_arm64_test = _compiler_test(_own("macos_arm64"))

OWN_TESTS = {
    "android_arm64": own_android_arm64_test,
    "android_x86_64": own_android_x86_64_test,
    "ios_arm64": own_ios_arm64_test,
    "linux_arm64": own_linux_arm64_test,
    "linux_x86_64": own_linux_x86_64_test,
    "macos_arm64": own_macos_arm64_test,
}

device_runtime_test = _runtime_test(_own("ios"))
own_simulator_runtime_test = _runtime_test(_own("ios"), cpu = "ios_sim_arm64")
ready_made_device_runtime_test = _runtime_test(_ready_made("ios_arm64"))
ready_made_simulator_runtime_test = _runtime_test(_ready_made("ios_sim_arm64"))
