"""et_android_tools: the programs that build Android apps."""

load("//toolchains/android:providers.bzl", "EtAndroidToolsInfo")

ANDROID_TOOLCHAIN = Label("//toolchains/android:toolchain_type")

def _et_android_tools_impl(ctx):
    info = EtAndroidToolsInfo(
        aapt2 = ctx.attr.aapt2[DefaultInfo].files_to_run,
        android_jar = ctx.file.android_jar,
        apksigner = ctx.attr.apksigner[DefaultInfo].files_to_run,
        d8 = ctx.attr.d8[DefaultInfo].files_to_run,
        java_compiler = ctx.attr.java_compiler[DefaultInfo].files_to_run,
    )
    return [platform_common.ToolchainInfo(android_tools = info), info]

def _tool(doc):
    return attr.label(cfg = "exec", doc = doc, executable = True, mandatory = True)

et_android_tools = rule(
    implementation = _et_android_tools_impl,
    doc = """Programs of an Android SDK, for a `toolchain` of the type `@rules_executorch//toolchains/android:toolchain_type`.

The bundled tools come from package registries and run on Linux on x86_64. To use your own SDK:

```starlark
et_android_tools(
    name = "android_tools",
    aapt2 = "@sdk//:build-tools/35.0.0/aapt2",
    android_jar = "@sdk//:platforms/android-35/android.jar",
    apksigner = ":apksigner",   # sh_binary: runs build-tools/35.0.0/apksigner
    d8 = ":d8",
    java_compiler = ":javac",
)
toolchain(
    name = "android_toolchain",
    toolchain = ":android_tools",
    toolchain_type = "@rules_executorch//toolchains/android:toolchain_type",
)
```
""",
    attrs = {
        "aapt2": _tool("Packs the manifest."),
        "android_jar": attr.label(
            allow_single_file = [".jar"],
            doc = "The API to compile against, 23 or newer, with its resources.",
            mandatory = True,
        ),
        "apksigner": _tool("Signs and verifies."),
        "d8": _tool("Compiles classes to .dex files."),
        "java_compiler": _tool("Takes javac's options -source, -target, -bootclasspath, -encoding, -nowarn, -d."),
    },
    provides = [EtAndroidToolsInfo],
)
