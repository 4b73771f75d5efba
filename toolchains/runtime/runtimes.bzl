"""READY_MADE: the runtimes that are fetched where an app is built for their platform."""

# Platform to what is known of its runtime before it is fetched: constraints of the platform, and the
# names of its backends, for messages about other runtimes. A test compares these with the runtimes.
READY_MADE = {
    "linux_x86_64": struct(
        backends = ["OpenvinoBackend", "QnnBackend", "XnnpackBackend"],
        constraints = [
            "@platforms//cpu:x86_64",
            "@platforms//os:linux",
        ],
    ),
}
