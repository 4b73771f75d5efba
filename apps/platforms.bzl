"""The platforms of the demo app."""

# Each compiles the runner once more, so `//...` omits those whose compiler is that of ios_arm64.
COMPILED_ALWAYS = [
    "android_arm64",
    "android_x86_64",
    "ios_arm64",
    "linux_arm64",
    "linux_x86_64",
]

PLATFORMS = COMPILED_ALWAYS + [
    "ios_sim_arm64",
    "macos_arm64",
]
