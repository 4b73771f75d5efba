"""Choice of the libraries that an app needs, and what a runtime lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from etbuild.errors import BuildError
from etbundle import fit
from etbundle.fit import Runtime, choose, describe, link_flags
from etbundle.library import Library
from etbundle.needs import Use

from tests.unit.linker.synthetic import changed_program


def library(
    name: str, operators: str = "", backends: str = "", deps: str = "", suffix: str = ".so"
) -> Library:
    return Library(
        f"//r:{name}",
        f"r/lib{name}{suffix}",
        tuple(f"//r:{d}" for d in deps.split()),
        frozenset(operators.split()),
        frozenset(backends.split()),
    )


CORE = library("core", "executorch_prim::et_view.default")
THREADS = library("threads", deps="core")
KERNELS = library("kernels", "aten::add.out aten::mul.out", deps="threads core")
QUANTIZED = library("quantized", "quantized_decomposed::add.out", deps="threads core")
XNNPACK = library("xnnpack", backends="XnnpackBackend", deps="threads core")
CHOICE = (THREADS, KERNELS, QUANTIZED, XNNPACK)


def runtime(
    choice: tuple[Library, ...] = CHOICE,
    always: tuple[Library, ...] = (),
    kernels: tuple[Library, ...] = (),
) -> Runtime:
    return Runtime("//r:runtime", "linux_arm64", "1.5.1", CORE, choice, always, kernels)


def use(operators: str = "", backends: str = "", method: str = "forward") -> Use:
    return Use("//m:net", method, tuple(operators.split()), tuple(backends.split()))


def names(chosen: list[Library]) -> list[str]:
    return [one.label.removeprefix("//r:") for one in chosen]


def test_only_what_programs_use() -> None:
    assert names(choose("//a:app", runtime(), [])) == ["core"]
    delegated = [use("executorch_prim::et_view.default", "XnnpackBackend")]
    assert names(choose("//a:app", runtime(), delegated)) == ["core", "threads", "xnnpack"]
    both = [use("aten::add.out"), use(backends="XnnpackBackend")]
    assert names(choose("//a:app", runtime(), both)) == ["core", "threads", "xnnpack", "kernels"]


def test_the_preferred_one_of_two() -> None:
    slow = library("slow", "aten::add.out aten::sin.out")
    chosen = choose("//a:app", runtime((*CHOICE, slow)), [use("aten::add.out")])
    assert "slow" not in names(chosen)
    assert "kernels" in names(chosen)


def test_always_and_own_kernels_are_there_unused() -> None:
    own = library("own", "mine::op.out", suffix=".a")
    cxx = library("cxx")
    chosen = choose("//a:app", runtime(always=(cxx,), kernels=(own,)), [])
    assert names(chosen) == ["core", "cxx", "own"]


def test_libraries_without_references_stay_in_the_binary() -> None:
    flags = link_flags([CORE], macho=False)
    assert flags == ["-Wl,--push-state,--no-as-needed", "r/libcore.so", "-Wl,--pop-state"]
    framework = Library("//r:f", "r/F.framework/F", (), frozenset(), frozenset())
    assert link_flags([framework], macho=True) == ["r/F.framework/F"]
    dylib = library("core", suffix=".dylib")
    assert link_flags([dylib], macho=True) == ["r/libcore.dylib"]


def test_static_libraries() -> None:
    helpers = library("helpers", suffix=".a")
    kernels = library("kernels", "aten::add.out", suffix=".a")
    assert link_flags([helpers, kernels], macho=False) == [
        "-Wl,--push-state,--whole-archive",
        "r/libkernels.a",
        "-Wl,--pop-state",
        "-Wl,--start-group",
        "r/libhelpers.a",
        "-Wl,--end-group",
    ]
    flags = link_flags([helpers, kernels], macho=True)
    assert flags == ["-Wl,-force_load,r/libkernels.a", "r/libhelpers.a"]


def test_a_missing_operator() -> None:
    with pytest.raises(BuildError) as caught:
        choose("//a:app", runtime(), [use("aten::add.Scalar_out", method="decode")])
    text = str(caught.value)
    assert (
        '//a:app: //m:net calls the operator "aten::add.Scalar_out" in its method "decode"' in text
    )
    assert "no library of the runtime //r:runtime (linux_arm64, ExecuTorch 1.5.1)" in text
    assert "in kernels" in text
    with pytest.raises(BuildError, match="Similar ones: aten::mul.out"):
        choose("//a:app", runtime(), [use("aten::mull.out")])


def test_a_missing_backend() -> None:
    with pytest.raises(BuildError) as caught:
        choose("//a:app", runtime(), [use(backends="CoreMLBackend")])
    text = str(caught.value)
    assert 'delegates to the backend "CoreMLBackend" in its method "forward"' in text
    assert "does not have it. Available: XnnpackBackend." in text


def vulkan(names: str) -> Library:
    """A runtime's only library, whose Vulkan backend has these operators."""
    named = {"VulkanBackend": tuple(names.split())}
    backends = frozenset(["VulkanBackend"])
    return Library("//r:core", "r/libcore.so", (), frozenset(), backends, named)


def with_payload(names: str) -> Use:
    named = {"VulkanBackend": tuple(names.split())}
    layers = {"aten.grid_sampler_2d.default": ["warp", "warp_2"]}
    return Use("//m:net", "forward", (), ("VulkanBackend",), named, layers)


def choose_vulkan(runtime_has: str, payload: str) -> list[Library]:
    core = vulkan(runtime_has)
    android = Runtime("//r:runtime", "android_arm64", "1.3.1", core, ())
    return choose("//a:app", android, [with_payload(payload)])


def test_an_operator_of_a_payload_that_the_runtime_lacks() -> None:
    has = "aten.mm.default aten.convolution.default"
    assert choose_vulkan(has, has)
    with pytest.raises(BuildError) as caught:
        choose_vulkan(has, "aten.mm.default aten.grid_sampler_2d.default")
    assert str(caught.value).startswith(
        '//a:app: //m:net calls the operator "aten.grid_sampler_2d.default" in what it delegates '
        'to VulkanBackend (method "forward", in warp, warp_2), but the backend of the runtime '
        "//r:runtime (android_arm64, ExecuTorch 1.3.1) does not have it. ExecuTorch 1.4.0 is the "
        "first that has it."
    )
    with pytest.raises(BuildError, match="No known version of ExecuTorch has it"):
        choose_vulkan(has, "aten.logical_not.default")


def test_names_that_the_scan_could_not_read_refuse_nothing() -> None:
    assert choose_vulkan("", "aten.grid_sampler_2d.default")
    assert choose_vulkan("aten.convolution.default", "aten.mm.default")
    with pytest.raises(BuildError, match="aten.log10.default"):
        choose_vulkan("aten.convolution.default", "aten.log10.default")


def test_an_operator_twice() -> None:
    own = library("own", "mine::op.out aten::add.out")
    with pytest.raises(BuildError) as caught:
        choose("//a:app", runtime(kernels=(own,)), [use("aten::mul.out")])
    assert "//r:own and //r:kernels both register aten::add.out" in str(caught.value)
    # The app's own comes first, and the runtime's stays out where nothing else of it is used.
    assert "kernels" not in names(
        choose("//a:app", runtime(kernels=(own,)), [use("aten::add.out")])
    )


def test_two_own_libraries_of_the_same_operators() -> None:
    one, two = library("one", "mine::op.out"), library("two", "mine::op.out")
    with pytest.raises(BuildError, match="//r:one and //r:two both register mine::op.out"):
        choose("//a:app", runtime(kernels=(one, two)), [])


def test_what_is_said_of_a_fit() -> None:
    uses = [use("aten::add.out", "XnnpackBackend"), use("aten::mul.out", method="decode")]
    result = describe("//a:app", runtime(), uses, choose("//a:app", runtime(), uses))
    assert result["programs"]["//m:net"]["decode"]["operators"] == ["aten::mul.out"]
    by_label = {one["label"]: one for one in result["libraries"]}
    assert by_label["//r:kernels"]["operators"] == ["aten::add.out", "aten::mul.out"]
    assert by_label["//r:xnnpack"]["backends"] == ["XnnpackBackend"]


def run_fit(folder: Path, program: Path, *more: str) -> int:
    """EtFit of one program and a runtime of one library; returns its exit code."""
    summary = folder / "net.link.json"
    summary.write_text('{"delegated_layers": {}}')
    scan = folder / "core.registered"
    scan.write_text("")
    return fit.main(
        ["--label", "//a:app", "--runtime", "//r:r", "--platform", "p", "--runtime_version", "1"]
        + ["--core", "//r:core", "libcore.so", str(scan), ""]
        + ["--program", "//m:net", str(program), str(summary), *more]
        + ["--fit", str(folder / "fit.json"), "--link_flags", str(folder / "flags")]
    )


@pytest.mark.parametrize(
    ("written", "header", "newest"),
    [
        (0, "", 0),
        (1, "", 0),
        (1, "  static constexpr uint32_t kMaxSupportedSchemaVersion = 0;\n", 0),
        (1, "  static constexpr uint32_t kMaxSupportedSchemaVersion = 1;\n", 1),
        (12, "  static constexpr uint32_t kMaxSupportedSchemaVersion = 11;\n", 11),
        (11, "  static constexpr uint32_t kMaxSupportedSchemaVersion = 12;\n", 12),
        (7, None, None),
    ],
)
def test_schema_versions(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    written: int,
    header: str | None,
    newest: int | None,
) -> None:
    """A runtime gets no program of a newer schema than its header says that it reads."""

    def stamp(tables: Any) -> None:
        tables.version = written

    path = tmp_path / "program.h"
    if header is not None:
        path.write_text(header)
    more = [] if header is None else ["--header", str(path)]
    code = run_fit(tmp_path, changed_program(tmp_path / "net.pte", stamp), *more)
    message = capsys.readouterr().err
    if newest is None or written <= newest:
        assert (code, message) == (0, "")
        return
    assert code == 1
    assert (
        f"//a:app: schema version of //m:net: got {written}, expected at most {newest}, as the "
        "runtime //r:r (p, ExecuTorch 1) reads no newer one." in message
    )
    assert not (tmp_path / "fit.json").exists()


def test_a_damaged_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "net.pte"
    program.write_bytes(b"\0" * 100)
    assert run_fit(tmp_path, program) == 1
    assert "net.pte is not an ExecuTorch program" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "core.registered",
        "net.link.json",
        "net.pte",
    ]
