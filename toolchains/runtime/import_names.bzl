"""Reads names of libraries: those that ExecuTorch's own builds for CMake, Android and Apple give."""

# Platform to Android's name of it.
ABIS = {
    "android_arm64": "arm64-v8a",
    "android_x86_64": "x86_64",
}

# Platform to the folder of an xcframework.
SLICES = {
    "ios_arm64": "ios-arm64",
    "ios_sim_arm64": "ios-arm64-simulator",
    "macos_arm64": "macos-arm64",
}

# The framework with the C interface for apps, which Swift imports.
API_FRAMEWORK = "ExecutorchApp"

# Name of a library, without what platforms put around it, to the backend that it registers.
_BACKENDS = {
    "aoti_cuda": "CudaBackend",
    "coreml": "CoreMLBackend",
    "coremldelegate": "CoreMLBackend",
    "cortex_m": "",
    "ethos_u": "EthosUBackend",
    "mlx": "MLXBackend",
    "mlxdelegate": "MLXBackend",
    "mps": "MPSBackend",
    "mpsdelegate": "MPSBackend",
    "neuron": "NeuropilotBackend",
    "openvino": "OpenvinoBackend",
    "qnn": "QnnBackend",
    "qnn_executorch": "QnnBackend",
    "vgf": "VgfBackend",
    "vulkan": "VulkanBackend",
    "xnnpack": "XnnpackBackend",
}

_CORES = ["executorch", "ExecutorchLib", "executorch_jni"]

def library_name(file):
    """Name of a library without prefix, suffix and platform: "portable_ops_lib".

    Args:
      file: base name of a file: "libportable_ops_lib.a", "libbackend_coreml_ios.a".

    Returns:
      A string.
    """
    name = file.removesuffix(".a").removesuffix(".so").removesuffix(".dylib").removeprefix("lib")
    for platform in ("_ios", "_simulator", "_macos"):
        name = name.removesuffix(platform)
    return name

def is_core(file, core):
    """Tells whether a library loads and runs programs.

    Args:
      file: base name of a file.
      core: base name of the one that does, or empty: by its name.

    Returns:
      A bool.
    """
    return file == core if core else library_name(file) in _CORES

def backend_of(file):
    """The backend that a library registers.

    Args:
      file: base name of a file.

    Returns:
      A string; empty: none.
    """
    name = library_name(file).removeprefix("executorch_")
    return _BACKENDS.get(name.removeprefix("backend_").removesuffix("_backend"), "") if (
        name.startswith("backend_") or name.endswith("_backend") or name.endswith("delegate")
    ) else ""

def role_of(file):
    """Returns the role of a library.

    Args:
      file: base name of a file.

    Returns:
      "operators", "backend", "etdump" or "plain".
    """
    name = library_name(file).removeprefix("executorch_")
    if backend_of(file):
        return "backend"
    if name.endswith("_ops_lib") or name.startswith("kernels_") or name in ("custom_ops", "torchao_ops_executorch"):
        return "operators"
    return "etdump" if name == "etdump" else "plain"
