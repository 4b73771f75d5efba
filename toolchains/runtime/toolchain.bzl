"""et_runtime_toolchain: ExecuTorch's C++ runtime for one platform."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//toolchains/runtime:providers.bzl", "EtRuntimeInfo", "EtRuntimeLibraryInfo")

RUNTIME_TOOLCHAIN = Label("//toolchains/runtime:toolchain_type")

def _et_runtime_toolchain_impl(ctx):
    libraries = [t[EtRuntimeLibraryInfo] for t in ctx.attr.libraries]
    core = ctx.attr.core[EtRuntimeLibraryInfo]
    _check_backends(ctx, [core] + libraries)
    info = EtRuntimeInfo(
        label = ctx.label,
        platform = ctx.attr.platform,
        executorch_version = ctx.attr.executorch_version,
        verified_exporters = ctx.attr.verified_exporters,
        headers = ctx.attr.headers[CcInfo],
        core = core,
        etdump = ctx.attr.etdump[EtRuntimeLibraryInfo] if ctx.attr.etdump else None,
        libraries = libraries,
        always = [t[EtRuntimeLibraryInfo] for t in ctx.attr.always],
        data_files = ctx.attr.data_files,
        license_files = depset(ctx.files.license_files),
    )
    return [platform_common.ToolchainInfo(runtime = info), info]

def _check_backends(ctx, libraries):
    owner = {}
    for library in libraries:
        for backend in library.backends:
            if backend in owner:
                fail("%s: two libraries register the backend \"%s\": %s and %s. Keep one of them." %
                     (ctx.label, backend, owner[backend], library.label))
            owner[backend] = library.label

et_runtime_toolchain = rule(
    implementation = _et_runtime_toolchain_impl,
    doc = """ExecuTorch's C++ runtime for one platform, library by library.

For a `toolchain` of the type `@rules_executorch//toolchains/runtime:toolchain_type`; one that the root module
registers takes precedence over the bundled ones.

```starlark
et_runtime_toolchain(
    name = "runtime",
    core = ":core",
    executorch_version = "1.5.1",
    headers = ":headers",
    libraries = [":kernels_optimized", ":kernels_quantized", ":backend_xnnpack"],
    license_files = ["LICENSE"],
    platform = "linux_x86_64",
)

toolchain(
    name = "linux_x86_64",
    target_compatible_with = ["@platforms//cpu:x86_64", "@platforms//os:linux"],
    toolchain = ":runtime",
    toolchain_type = "@rules_executorch//toolchains/runtime:toolchain_type",
)
```
""",
    attrs = {
        "always": attr.label_list(
            providers = [EtRuntimeLibraryInfo],
            doc = "Libraries that every app gets, e.g. the C++ library that the others need.",
        ),
        "core": attr.label(
            mandatory = True,
            providers = [EtRuntimeLibraryInfo],
            doc = "The library that loads and runs programs.",
        ),
        "data_files": attr.bool(default = True, doc = "True: the library loads .ptd files."),
        "etdump": attr.label(
            providers = [EtRuntimeLibraryInfo],
            doc = "The library that records what a program does; only apps with etdump = True get it.",
        ),
        "executorch_version": attr.string(
            mandatory = True,
            doc = "The version that it was built from, e.g. \"1.5.1\".",
        ),
        "headers": attr.label(
            mandatory = True,
            providers = [CcInfo],
            doc = "A cc_library with the headers.",
        ),
        "license_files": attr.label_list(allow_files = True, doc = "License files, copied into every app."),
        "libraries": attr.label_list(
            providers = [EtRuntimeLibraryInfo],
            doc = "Libraries with operators and backends, preferred ones first: an app gets those " +
                  "that its programs need.",
        ),
        "platform": attr.string(
            mandatory = True,
            doc = "Name of the platform, as in @rules_executorch//toolchains/platforms.",
        ),
        "verified_exporters": attr.string_list(
            doc = "Newer versions of the exporter whose programs were verified on this runtime, " +
                  "e.g. [\"1.5.1\"] for a runtime of 1.3.1. Others are refused.",
        ),
    },
    provides = [EtRuntimeInfo],
)
