"""READY_MADE: the runtimes that are fetched where an app is built for their platform."""

def _runtime(os, cpu, backends, settings = []):
    return struct(
        backends = backends,
        constraints = ["@platforms//os:" + os, "@platforms//cpu:" + cpu],
        settings = settings,
    )

# Platform to what is known of its runtime before it is fetched: constraints of the platform, settings of the
# build, and the names of its backends, for messages about other runtimes. A test compares these with the runtimes.
READY_MADE = {
    "android_arm64": _runtime("android", "arm64", ["VulkanBackend", "XnnpackBackend"]),
    "android_x86_64": _runtime("android", "x86_64", ["VulkanBackend", "XnnpackBackend"]),
    "ios_arm64": _runtime(
        "ios",
        "arm64",
        ["CoreMLBackend", "MLXBackend", "MPSBackend", "XnnpackBackend"],
        [":for_devices"],
    ),
    "ios_sim_arm64": _runtime(
        "ios",
        "arm64",
        ["CoreMLBackend", "MPSBackend", "XnnpackBackend"],
        [":for_simulators"],
    ),
    "linux_arm64": _runtime("linux", "arm64", ["OpenvinoBackend", "XnnpackBackend"]),
    "linux_x86_64": _runtime("linux", "x86_64", ["OpenvinoBackend", "QnnBackend", "XnnpackBackend"]),
    "macos_arm64": _runtime("macos", "arm64", ["CoreMLBackend", "MLXBackend", "XnnpackBackend"]),
}
