"""wheel_runtime: the runtime out of one of executorch's wheels."""

load("//toolchains/runtime:library.bzl", "et_runtime_library")
load("//toolchains/runtime:origins.bzl", "EXECUTORCH_LICENSE")
load("//toolchains/runtime:toolchain.bzl", "et_runtime_toolchain")

# Libraries of wheels; each platform's wheel has some of them. Those of which an app gets the ones that it
# needs come in order of preference.
_KERNELS = ["optimized", "quantized", "torchao"]
_BACKENDS = {
    "coreml": "CoreMLBackend",
    "mlx": "MLXBackend",
    "openvino": "OpenvinoBackend",
    "qnn": "QnnBackend",
    "xnnpack": "XnnpackBackend",
}

# What a library looks for beside itself.
_RESOURCES = {"mlx": ["lib/mlx.metallib"]}

def wheel_runtime(name, *, platform, executorch_version, verified_exporters = []):
    """Declares the libraries of a wheel's C++ SDK and their et_runtime_toolchain.

    Args:
      name: of the et_runtime_toolchain; beside it come `core`, `threadpool`, `etdump`,
        `kernels_<name>` and `backend_<name>`.
      platform: name of the platform.
      executorch_version: of the wheel.
      verified_exporters: list of strings.
    """
    file = "lib/libexecutorch%s." + ("dylib" if platform.startswith("macos_") else "so")
    origin = dict(
        license = EXECUTORCH_LICENSE,
        purl = "pkg:pypi/executorch@" + executorch_version,
    )
    et_runtime_library(
        name = "core",
        library = file % "",
        **origin
    )
    et_runtime_library(
        name = "threadpool",
        library = file % "_threadpool",
        deps = [":core"],
        **origin
    )
    et_runtime_library(
        name = "etdump",
        library = file % "_etdump",
        deps = [":core"],
        **origin
    )
    libraries = []
    for kernels in _KERNELS:
        library = file % ("_kernels_" + kernels)
        if native.glob([library], allow_empty = True):
            libraries.append("kernels_" + kernels)
            et_runtime_library(
                name = "kernels_" + kernels,
                library = library,
                deps = [":threadpool", ":core"],
                **origin
            )
    for backend, registered in _BACKENDS.items():
        library = file % ("_backend_" + backend)
        if native.glob([library], allow_empty = True):
            libraries.append("backend_" + backend)
            et_runtime_library(
                name = "backend_" + backend,
                backends = [registered],
                library = library,
                resources = _RESOURCES.get(backend, []),
                deps = [":core"] + ([":threadpool"] if backend == "xnnpack" else []),
                **origin
            )
    et_runtime_toolchain(
        name = name,
        core = ":core",
        etdump = ":etdump",
        executorch_version = executorch_version,
        headers = ":headers",
        libraries = libraries,
        license_files = native.glob(["license/**"]),
        platform = platform,
        verified_exporters = verified_exporters,
    )
