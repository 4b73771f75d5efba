"""cc_repositories: a compiler, and for each platform what it needs there."""

load("//toolchains/cc:target_repository.bzl", "target_repository")
load("//toolchains/cc:targets.bzl", "TARGETS")
load("//toolchains/debian:debian.bzl", "debian_packages")
load("//toolchains/exporter:package_files.bzl", "package_files")

# Of the wheels of zig, by host.
_ZIG = {
    "linux_arm64": "d2804f94f54f7fcf8169f4b212a619ad688a4e2e6592e976f0cf2e58e2cd8af3",
    "linux_x86_64": "97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b",
    "macos_arm64": "87274af689c4128051b26c80f6f676757e0a81c2fdc137fd8b5679e928e4bc4f",
}

# Debian 12's libstdc++: programs run there and on what is newer.
_LIBSTDCXX = {
    "linux_arm64": {
        "libgcc-12-dev-arm64-cross=12.2.0-14cross1": "ff1324e262bae2c3aad685c2ed52bd531ab0a2a337a0fe35c3b720947d55b2ba",
        "libgcc-s1-arm64-cross=12.2.0-14cross1": "af1e686fc6a416228222e7bfb68317dd2fa2685236301ae29141fc6108a66cac",
        "libstdc++-12-dev-arm64-cross=12.2.0-14cross1": "942b5710c6b9792578dfa64f7a4633bc0d3cb205b56ded11297e240ff824f5da",
        "libstdc++6-arm64-cross=12.2.0-14cross1": "9cba984b64d0cf11698978fc5e0fe93c7441d29b9f42f70f1c6c734cc9e2ea41",
    },
    "linux_x86_64": {
        "libgcc-12-dev-amd64-cross=12.2.0-14cross1": "51934acb03f4345c98da94c6b759e6e3246b809f343f2d07795a132c072541ca",
        "libgcc-s1-amd64-cross=12.2.0-14cross1": "b432ba4cfc37d81fc9efe03da3c706eaa64859513f496397c56d11c08262994f",
        "libstdc++-12-dev-amd64-cross=12.2.0-14cross1": "c002a33a10cbecffb4c5237692a34a77e0a4f9817d708713f74bd3d8f670efe0",
        "libstdc++6-amd64-cross=12.2.0-14cross1": "ad91d29ea6b2a819fe6f79138fee2ce4c1a1dbe7fcd355c3a8f27e8c3d13dd88",
    },
}

def cc_repositories():
    """Declares `executorch_zig`, `executorch_cc_<platform>` and `executorch_libstdcxx_<platform>`."""

    # The compiler, for the machine that Bazel runs on: clang, lld and headers of all systems.
    package_files(
        name = "executorch_zig",
        build_file = Label("//toolchains/cc:zig.BUILD"),
        files = {
            "LICENSE": "ziglang/LICENSE",
            "lib": "ziglang/lib",
            "zig": "ziglang/zig",
        },
        package = "ziglang==0.17.0",
        sha256_by_host = _ZIG,
    )
    for platform, packages in _LIBSTDCXX.items():
        debian_packages(
            name = "executorch_libstdcxx_" + platform,
            build_file = Label("//toolchains/cc:libstdcxx.BUILD"),
            packages = packages,
            substitutions = {"%{machine}": TARGETS[platform].machine},
        )
    for platform in TARGETS:
        target_repository(
            name = "executorch_cc_" + platform,
            platform = platform,
        )
