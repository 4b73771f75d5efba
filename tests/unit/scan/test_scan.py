"""The scan of libraries reads what they register when they are loaded."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle.scan import Registered, main, read, scan, write

_HERE = Path("tests/unit/scan").absolute()
_EXTERNAL = _HERE.parents[3]
_LIBRARIES = [
    "",
    "_backend_openvino",
    "_backend_qnn",
    "_backend_xnnpack",
    "_etdump",
    "_kernels_optimized",
    "_kernels_quantized",
    "_threadpool",
]


def runtime(platform: str) -> Path:
    """The repository of a platform's runtime."""
    (found,) = _EXTERNAL.glob(f"*executorch_runtime_{platform}")
    return found


def library(platform: str, name: str = "") -> Path:
    """A library out of executorch's wheel."""
    extension = "dylib" if platform.startswith("macos") else "so"
    return runtime(platform) / f"lib/libexecutorch{name}.{extension}"


def framework(platform: str) -> Path:
    return runtime(platform) / "Frameworks/ExecutorchLib.framework/ExecutorchLib"


def android(platform: str) -> Path:
    return runtime(platform) / "lib/libexecutorch_jni.so"


def loaded(*libraries: Path) -> set[tuple[str, str]]:
    """Lists what the runtime has registered with these libraries: kind and name."""
    command = [_HERE / "registered", *libraries]
    lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
    return {(kind, name) for kind, _, name in (line.partition(" ") for line in lines)}


def found(path: Path) -> set[tuple[str, str]]:
    registered = scan(path)
    operators = {("operator", name) for name in registered.operators}
    return operators | {("backend", name) for name in registered.backends}


@pytest.mark.parametrize("name", _LIBRARIES)
def test_libraries_register_what_is_found(name: str) -> None:
    core = loaded()
    wanted = loaded(library("linux_x86_64", name)) - core if name else core
    assert found(library("linux_x86_64", name)) == wanted


def test_something_is_registered() -> None:
    assert ("operator", "aten::sym_size.int") in loaded()
    assert len(loaded(library("linux_x86_64", "_kernels_optimized"))) > 200


@pytest.mark.parametrize(
    "name", ["", "_kernels_optimized", "_kernels_quantized", "_backend_xnnpack"]
)
def test_other_systems_libraries_of_that_version_register_the_same(name: str) -> None:
    wanted = scan(library("linux_x86_64", name))
    assert scan(library("linux_arm64", name)) == wanted
    assert scan(library("macos_arm64", name)) == wanted


def test_macos_only_libraries() -> None:
    assert scan(library("macos_arm64", "_backend_coreml")).backends == ("CoreMLBackend",)
    assert scan(library("macos_arm64", "_backend_mlx")).backends == ("MLXBackend",)
    torchao = scan(library("macos_arm64", "_kernels_torchao")).operators
    assert "torchao::_linear_8bit_act_4bit_weight.out" in torchao
    assert {name.split("::")[0] for name in torchao} == {"torchao"}


def test_phones_runtimes() -> None:
    of_android = scan(android("android_arm64"))
    assert of_android == scan(android("android_x86_64"))
    assert of_android.backends == ("VulkanBackend", "XnnpackBackend")
    assert "llama::sdpa_with_kv_cache.out" in of_android.operators
    of_payloads = of_android.payload_operators["VulkanBackend"]
    # Short names, which on x86_64 are numbers in code, longer ones, and ones without a namespace.
    assert {"aten.mm.default", "et_vk.prepack.default", "sym_size.int"} <= set(of_payloads)
    assert "aten.grid_sampler_2d.default" not in of_payloads
    of_ios, of_simulator = scan(framework("ios_arm64")), scan(framework("ios_sim_arm64"))
    assert of_ios.backends == ("CoreMLBackend", "MLXBackend", "MPSBackend", "XnnpackBackend")
    assert of_simulator.backends == ("CoreMLBackend", "MPSBackend", "XnnpackBackend")
    more = set(of_ios.operators) - set(of_android.operators)
    assert set(of_ios.operators) > set(of_android.operators)
    assert {name.split("::")[0] for name in more} == {"torchao"}
    assert of_ios.operators == of_simulator.operators


def test_archives_and_names_that_only_look_like_registered_ones() -> None:
    known = ["OwnBackend", "VulkanBackend"]
    assert scan(_HERE / "libown.a", known) == Registered(("own::twice.out",), ("OwnBackend",))


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    arguments = ["--label", "//x:own", "--library", str(_HERE / "libown.a"), "--output", str(out)]
    assert main([*arguments, "--backend", "OwnBackend"]) == 0
    assert out.read_text() == "operator own::twice.out\nbackend OwnBackend\n"
    assert read(out) == Registered(("own::twice.out",), ("OwnBackend",))
    names = Registered(
        (), ("VulkanBackend",), {"VulkanBackend": ("aten.mm.default", "sym_size.int")}
    )
    write(out, names)
    assert out.read_text().endswith("payload_operator VulkanBackend sym_size.int\n")
    assert read(out) == names
    out.write_text("operator a::b\nkernel c\n")
    with pytest.raises(BuildError, match="out:2: got 'kernel c', expected an operator or a"):
        read(out)
    assert main([*arguments, "--backend", "VulkanBackend"]) == 1
    assert '//x:own: backend "VulkanBackend" not found in libown.a' in capsys.readouterr().err


def test_files_that_are_no_libraries(tmp_path: Path) -> None:
    path = tmp_path / "lib.so"
    with pytest.raises(BuildError, match="cannot be read: No such file"):
        scan(path)
    path.write_bytes(b"")
    with pytest.raises(BuildError, match="not a library: got an empty file"):
        scan(path)
    path.write_text("INPUT(libexecutorch.so) aten::add.out\0")
    with pytest.raises(BuildError, match=r"not a library: got b'INPUT\(li'"):
        scan(path)


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (library("linux_x86_64", "_etdump"), "ELF"),
        (library("macos_arm64", "_etdump"), "Mach-O"),
        (_HERE / "libown.a", "archive"),
    ],
)
def test_files_that_are_cut_off(source: Path, kind: str, tmp_path: Path) -> None:
    data = source.read_bytes()
    path = tmp_path / "cut"
    for length in (9, 40, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(BuildError, match=f"this {kind} file is damaged: "):
            scan(path)


def test_files_of_several_architectures(tmp_path: Path) -> None:
    thin = library("macos_arm64", "_backend_coreml").read_bytes()
    header = struct.pack(">IIIIIII", 0xCAFEBABE, 1, 0x0100000C, 0, 4096, len(thin), 12)
    path = tmp_path / "fat.dylib"
    path.write_bytes(header.ljust(4096, b"\0") + thin)
    assert scan(path).backends == ("CoreMLBackend",)
    path.write_bytes((header.ljust(4096, b"\0") + thin)[:-1])
    with pytest.raises(BuildError, match="architecture 0 ends at byte"):
        scan(path)
