"""qemu_repository: an emulator for programs that are built for another processor."""

load("//toolchains/debian:debian.bzl", "debian_packages")

def qemu_repository():
    """User-mode qemu, and Debian 12's libraries for arm64, as `executorch_qemu`."""
    debian_packages(
        name = "executorch_qemu",
        build_file = Label("//toolchains/qemu:qemu.BUILD"),
        packages = {
            "libc6-arm64-cross=2.36-8cross1": "91936cbbee75771c360ed16513f6e734a25ca5517fe7c3e13dfd7835d7553186",
            "libgcc-s1-arm64-cross=12.2.0-14cross1": "af1e686fc6a416228222e7bfb68317dd2fa2685236301ae29141fc6108a66cac",
            "libstdc++6-arm64-cross=12.2.0-14cross1": "9cba984b64d0cf11698978fc5e0fe93c7441d29b9f42f70f1c6c734cc9e2ea41",
            "qemu-user-static=1:7.2+dfsg-7+deb12u18+b3": "c3e3ba2bd87f8c5b9a5da5ef21b5a3b82d7c63b89dd448d9ddaa4eabc5b6e402",
        },
    )
