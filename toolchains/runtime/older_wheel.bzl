"""older_wheel_runtime: the runtime in the Python module of a wheel that has no C++ libraries."""

load("//toolchains/runtime:library.bzl", "et_runtime_library")
load("//toolchains/runtime:origins.bzl", "EXECUTORCH_LICENSE")
load("//toolchains/runtime:toolchain.bzl", "et_runtime_toolchain")

def older_wheel_runtime(name, *, executorch_version, verified_exporters):
    """Declares the libraries of a wheel before 1.5.0 and their et_runtime_toolchain.

    Args:
      name: of the et_runtime_toolchain; beside it come `core`, `qnn` and `kernels_<name>`.
      executorch_version: of the wheel.
      verified_exporters: list of strings.
    """
    origin = dict(
        license = EXECUTORCH_LICENSE,
        purl = "pkg:pypi/executorch@" + executorch_version,
    )

    # The module gets part of its core from here.
    et_runtime_library(
        name = "qnn",
        backends = ["QnnBackend"],
        library = "lib/libqnn_executorch_backend.so",
        **origin
    )
    et_runtime_library(
        name = "core",
        backends = ["XnnpackBackend"],
        library = "lib/_portable_lib.cpython-311-x86_64-linux-gnu.so",
        deps = [":qnn"],
        **origin
    )
    kernels = {
        "kernels_llm": "lib/libcustom_ops_aot_lib.so",
        "kernels_quantized": "lib/libquantized_ops_aot_lib.so",
    }
    for target, library in kernels.items():
        et_runtime_library(
            name = target,
            library = library,
            deps = [":core"],
            **origin
        )
    et_runtime_toolchain(
        name = name,
        core = ":core",
        executorch_version = executorch_version,
        headers = ":headers",
        libraries = kernels.keys(),
        license_files = native.glob(["license/**"]),
        platform = "linux_x86_64",
        verified_exporters = verified_exporters,
    )
