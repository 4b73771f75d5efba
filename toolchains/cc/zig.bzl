"""zig_repository: the compiler (clang, lld and headers of all systems) out of zig's wheel."""

load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "host_platform")
load("//toolchains/exporter:wheel.bzl", "move_unpacked", "unpack_wheel")

_REQUIREMENT = "ziglang==0.17.0"

# Of the wheels, by host.
_SHA256 = {
    "linux_arm64": "d2804f94f54f7fcf8169f4b212a619ad688a4e2e6592e976f0cf2e58e2cd8af3",
    "linux_x86_64": "97079827064a7492cce5541ceb438ae8003ce1e54e399676da2d62fb7a5dc08b",
    "macos_arm64": "87274af689c4128051b26c80f6f676757e0a81c2fdc137fd8b5679e928e4bc4f",
}

def _zig_repository_impl(rctx):
    host = host_platform(rctx)
    folder = unpack_wheel(
        rctx,
        _REQUIREMENT,
        [_SHA256[host]] if host in _SHA256 else _SHA256.values(),
    )
    source_by_path = {
        "LICENSE": "ziglang/LICENSE",
        "lib": "ziglang/lib",
        "zig": "ziglang/zig",
    }
    move_unpacked(rctx, folder, source_by_path, "the wheel of " + _REQUIREMENT)
    rctx.template("BUILD.bazel", rctx.attr._build_file, executable = False)

zig_repository = repository_rule(
    implementation = _zig_repository_impl,
    doc = "Zig for the machine that Bazel runs on.",
    attrs = {
        "_build_file": attr.label(default = Label("//toolchains/cc:zig.BUILD")),
    },
    environ = [PYTHON_VARIABLE],
)
