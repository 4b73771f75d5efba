"""JNI's headers as a toolchain: queries of apps fetch nothing for Android, and only apps for Android use them."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

_TOOLCHAIN = Label("//toolchains/android:jni_toolchain_type")

def _jni_toolchain_impl(ctx):
    return [platform_common.ToolchainInfo(headers = ctx.attr.headers[CcInfo])]

jni_toolchain = rule(
    implementation = _jni_toolchain_impl,
    doc = "A toolchain of JNI's headers.",
    attrs = {
        "headers": attr.label(mandatory = True, providers = [CcInfo], doc = "A cc_library with jni.h."),
    },
)

def _jni_headers_impl(ctx):
    return [ctx.toolchains[_TOOLCHAIN].headers]

jni_headers = rule(
    implementation = _jni_headers_impl,
    doc = "The headers of the toolchain, for `deps` of a cc_library.",
    toolchains = [_TOOLCHAIN],
    provides = [CcInfo],
)
