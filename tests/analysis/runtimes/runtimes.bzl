"""Tests of runtimes: the ready-made ones are as known, and imports are told apart by names."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("//rules:providers.bzl", "EtRuntimeInfo")
load("//rules/private:app_files.bzl", "needed_resources")
load("//toolchains/exporter:providers.bzl", "EtExporterInfo")
load("//toolchains/runtime:import_names.bzl", "backend_of", "is_core", "library_name", "role_of")
load("//toolchains/runtime:older.bzl", "OLDER_RUNTIMES")
load("//toolchains/runtime:verified.bzl", "VERIFIED_EXPORTERS")

def _names(libraries):
    return [library.label.name for library in libraries]

def _runtime_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRuntimeInfo]
    asserts.equals(env, ctx.attr.platform, info.platform)
    asserts.equals(env, ctx.attr.executorch_version, info.executorch_version)
    backends = [b for library in [info.core] + info.libraries for b in library.backends]
    asserts.equals(env, sorted(ctx.attr.backends), sorted(backends))
    asserts.true(env, info.data_files, "it loads .ptd files")
    if ctx.attr.core:
        asserts.equals(env, ctx.attr.core, info.core.label.name)
        asserts.equals(env, ctx.attr.libraries, _names(info.libraries))
        asserts.equals(env, ctx.attr.always, _names(info.always))
        asserts.equals(env, ctx.attr.folder, info.core.folder)
    else:
        asserts.true(env, len(info.license_files.to_list()) > 0, "it has no license")
    return analysistest.end(env)

runtime_test = analysistest.make(
    _runtime_impl,
    attrs = {
        "always": attr.string_list(),
        "backends": attr.string_list(),
        "core": attr.string(),
        "executorch_version": attr.string(),
        "libraries": attr.string_list(),
        "folder": attr.string(),
        "platform": attr.string(),
    },
)

def _verified_impl(ctx):
    env = analysistest.begin(ctx)
    exporter = analysistest.target_under_test(env)[EtExporterInfo].executorch_version
    for version, exporters in VERIFIED_EXPORTERS.items():
        asserts.true(env, version in OLDER_RUNTIMES, version + " is not bundled")
        asserts.equals(env, [exporter], exporters, "what the tests of %s show" % version)
    return analysistest.end(env)

# Whose programs the older runtimes ran: those of the exporter that is here.
verified_test = analysistest.make(_verified_impl)

def _names_impl(ctx):
    env = unittest.begin(ctx)
    for file, wanted in {
        "ExecutorchLib": ("ExecutorchLib", "plain", ""),
        "libXNNPACK.a": ("XNNPACK", "plain", ""),
        "libbackend_coreml_ios.a": ("backend_coreml", "backend", "CoreMLBackend"),
        "libcoremldelegate.a": ("coremldelegate", "backend", "CoreMLBackend"),
        "libcustom_ops.a": ("custom_ops", "operators", ""),
        "libexecutorch.so": ("executorch", "plain", ""),
        "libexecutorch_backend_xnnpack.so": ("executorch_backend_xnnpack", "backend", "XnnpackBackend"),
        "libexecutorch_core.a": ("executorch_core", "plain", ""),
        "libexecutorch_etdump.so": ("executorch_etdump", "etdump", ""),
        "libexecutorch_kernels_optimized.so": ("executorch_kernels_optimized", "operators", ""),
        "libkernels_quantized_simulator.a": ("kernels_quantized", "operators", ""),
        "libportable_kernels.a": ("portable_kernels", "plain", ""),
        "libportable_ops_lib.a": ("portable_ops_lib", "operators", ""),
        "libqnn_executorch_backend.so": ("qnn_executorch_backend", "backend", "QnnBackend"),
        "libvulkan_backend.a": ("vulkan_backend", "backend", "VulkanBackend"),
        "libxnnpack_backend.a": ("xnnpack_backend", "backend", "XnnpackBackend"),
    }.items():
        got = (library_name(file), role_of(file), backend_of(file))
        asserts.equals(env, wanted, got, file)
    asserts.true(env, is_core("libexecutorch.a", ""))
    asserts.false(env, is_core("libexecutorch_core.a", ""))
    asserts.true(env, is_core("libown.so", "libown.so"))
    return unittest.end(env)

names_test = unittest.make(_names_impl)

def _resources_impl(ctx):
    env = unittest.begin(ctx)
    library = struct(resources = [struct(basename = name) for name in ("Info.plist", "mlx.metallib")])
    for backends, wanted in [
        ([], ["Info.plist"]),
        (["XnnpackBackend", "CoreMLBackend"], ["Info.plist"]),
        (["XnnpackBackend", "MLXBackend"], ["Info.plist", "mlx.metallib"]),
    ]:
        # One program for each backend: those of all programs count.
        programs = [struct(backends = depset([struct(id = backend)])) for backend in backends]
        got = [file.basename for file in needed_resources(library, programs)]
        asserts.equals(env, wanted, got, ", ".join(backends))
    return unittest.end(env)

resources_test = unittest.make(_resources_impl)
