"""wheel_runtime: the runtime out of one of executorch's wheels."""

load("//toolchains/runtime:library.bzl", "et_runtime_library")
load("//toolchains/runtime:toolchain.bzl", "et_runtime_toolchain")

def wheel_runtime(name, *, platform, extension, backends, executorch_version):
    """Declares the libraries of a wheel's C++ SDK and their et_runtime_toolchain.

    Args:
      name: of the et_runtime_toolchain; beside it come `core`, `threadpool`, `etdump`,
        `kernels_optimized`, `kernels_quantized` and `backend_<name>`.
      platform: name of the platform.
      extension: of shared libraries, "so" or "dylib".
      backends: dict of a backend library's name to the name that it registers.
      executorch_version: of the wheel.
    """
    file = "lib/libexecutorch%s." + extension
    et_runtime_library(
        name = "core",
        library = file % "",
    )
    et_runtime_library(
        name = "threadpool",
        library = file % "_threadpool",
        deps = [":core"],
    )
    et_runtime_library(
        name = "etdump",
        library = file % "_etdump",
        deps = [":core"],
    )
    for kernels in ("kernels_optimized", "kernels_quantized"):
        et_runtime_library(
            name = kernels,
            library = file % ("_" + kernels),
            deps = [":threadpool", ":core"],
        )
    for backend, registered in backends.items():
        et_runtime_library(
            name = "backend_" + backend,
            backends = [registered],
            library = file % ("_backend_" + backend),
            deps = [":threadpool", ":core"],
        )
    et_runtime_toolchain(
        name = name,
        core = ":core",
        etdump = ":etdump",
        executorch_version = executorch_version,
        headers = ":headers",
        libraries = [":kernels_optimized", ":kernels_quantized"] +
                    [":backend_" + backend for backend in backends],
        license_files = native.glob(["license/**"]),
        platform = platform,
    )
