"""EtExpect's file, and a program's test that reads it: its runtimes, its failures and crashes."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError, Method, ModelSpec
from etlower import arrays, bundled, compare, expected, lower
from etlower.arrays import Array
from etlower.expected import Case
from etlower.progress import Progress
from executorch.exir import to_edge
from request_files import install, request
from runner.api import executorch_app
from safetensors.torch import load_file

DTYPES = ("bfloat16", "bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64")
MORE_DTYPES = ("uint8", "uint16", "uint32", "uint64")

NET = """
import torch
from etbuild import Method, ModelSpec

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls, x.argmax(-1)

def build():
    method = Method(Net(), (torch.ones(2, 3),), test_inputs=[(torch.eye(3)[:2],)])
    return ModelSpec({"forward": method}, {"get_max_seq_len": 128, "get_eos_ids": [1, 2]})
"""


def tensor(dtype: str, *shape: int) -> torch.Tensor:
    """Numbers of a type: 0 and 1 alternate."""
    count = torch.Size(shape).numel()
    return (torch.arange(count) % 2).reshape(shape).to(getattr(torch, dtype))


def same(left: Any, right: Any) -> bool:
    """Tells whether two values have the same kind, type, shape and bytes."""
    if not isinstance(left, Array):
        return type(left) is type(right) and left == right
    return (left.dtype, left.shape, left.order) == (
        right.dtype,
        right.shape,
        right.order,
    ) and left.data.tobytes() == right.data.tobytes()


def test_a_file_holds_every_kind_of_value(tmp_path: Path) -> None:
    """The same bytes for the same values, which upstream's reader understands, too."""
    tensors = [tensor(dtype, 2, 3) for dtype in (*DTYPES, *MORE_DTYPES)]
    tensors += [torch.zeros(0, 4), torch.tensor(2.5), torch.tensor([float("nan"), float("inf")])]
    last = torch.rand(1, 2, 3, 4).to(memory_format=torch.channels_last)
    values = expected.plain([*tensors, last, 3, -0.5, True, None, "text"], "a value")
    cases = [Case("forward", 0, False, values, values), Case("size", 0, True, (), (7,))]
    for name in ("one", "two"):
        expected.write(tmp_path / f"{name}.safetensors", cases)
    content = (tmp_path / "one.safetensors").read_bytes()
    assert content == (tmp_path / "two.safetensors").read_bytes()
    read = expected.read(tmp_path / "one.safetensors")
    assert [(c.method, c.number, c.constant) for c in read] == [
        ("forward", 0, False),
        ("size", 0, True),
    ]
    for back, value in zip((*read[0].inputs, *read[1].outputs), (*values, 7), strict=True):
        assert same(back, value), value
    upstream = load_file(tmp_path / "one.safetensors")
    torch.testing.assert_close(upstream["forward/0/input_0"], tensors[0])
    laid_out = arrays.to_torch(read[0].inputs[len(tensors)])
    assert laid_out.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(laid_out, last)


@pytest.mark.parametrize("damage", ["cut", "header", "format", "gone"])
def test_damaged_files(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "e.safetensors"
    expected.write(path, [Case("forward", 0, False, (), (arrays.of_torch(torch.ones(64)),))])
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    elif damage == "format":
        path.write_bytes(content.replace(b'\\"format\\": 1', b'\\"format\\": 9'))
    else:
        path.write_bytes(content[:-9] if damage == "cut" else content[:20])
    with pytest.raises(BuildError, match="build it again"):
        expected.read(path)


def test_types_without_a_form() -> None:
    with pytest.raises(BuildError) as error:
        expected.plain([torch.zeros(2, dtype=torch.complex64)], 'method "forward", input 0')
    text = 'method "forward", input 0: a tensor\'s dtype: got complex64, expected one of float32'
    assert str(error.value).startswith(text)
    with pytest.raises(BuildError, match="got a object, expected tensors, numbers and texts"):
        expected.plain([object()], "x")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program and the eager model's outputs."""
    folder = tmp_path_factory.mktemp("built")
    tree = install(folder, net=NET)
    output = folder / "net.expected.safetensors"
    sources = {"_main/net.py": folder / "workspace" / "net.py"}
    asked = request(command="expect", output=output, sources=sources, roots=("_main",))
    lower.run(asked, Progress(), tree)
    scope: dict[str, Any] = {}
    exec(NET, scope)
    spec = scope["build"]()
    method = spec.methods["forward"]
    exported = torch.export.export(method.module, method.example_inputs)
    edge = to_edge({"forward": exported}, constant_methods=dict(spec.constant_methods))
    (folder / "net.pte").write_bytes(edge.to_executorch().buffer)
    return folder


@pytest.fixture
def net(built: Path, tmp_path: Path) -> dict[str, Path]:
    """Copies what the build hands to a test: program, manifest, and the eager model's outputs."""
    program, output = (
        Path(shutil.copy(built / name, tmp_path))
        for name in ("net.pte", "net.expected.safetensors")
    )
    return {"program": program, "expected": output, "manifest": manifest_of(program)}


def manifest_of(program: Path) -> Path:
    """The manifest of a program without data files."""
    content = program.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    path = program.with_name("manifest.json")
    manifest = {"format": 1, "label": "//m:n"}
    manifest["files"] = {program.name: {"size": len(content), "sha256": digest}}
    manifest["programs"] = {"n": {"label": "//m:n", "file": program.name, "weight_cache": {}}}
    path.write_text(json.dumps(manifest))
    return path


def run(files: Mapping[str, Path], *more: str) -> int:
    """The exit code of a program's test."""
    words = [f"--{name}={path}" for name, path in files.items()]
    return compare.main(["--label=//m:test", "--atol=1e-6", "--rtol=0", *words, *more])


def test_a_state_is_fresh_in_each_case_and_survives_in_a_row(
    net: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """In the eager model and in the program, whose process has torch."""
    cases = expected.read(net["expected"])
    names = [(case.method, case.number, case.calls) for case in cases]
    calls = [("forward", number, calls) for number in (0, 1) for calls in (1, 2, 3)]
    assert names == [*calls, ("get_max_seq_len", 0, 1), ("get_eos_ids", 0, 1)]
    assert cases[3].outputs[0].data.tolist() == [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0]]
    assert cases[5].outputs[0].data.tolist() == [[4.0, 3.0, 3.0], [3.0, 4.0, 3.0]]
    assert same(cases[5].inputs[0], cases[3].inputs[0])
    assert run(net) == 0
    printed = capfd.readouterr().out
    assert 'method "forward", input 1, output 0: largest difference 0' in printed
    assert 'method "forward", input 1, call 3 in a row, output 0: largest difference 0' in printed


def test_a_state_that_is_lost_fails(
    net: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a model whose second call gives what the first one gave."""
    cases = expected.read(net["expected"])
    cases[1] = dataclasses.replace(cases[1], outputs=cases[0].outputs)
    expected.write(net["expected"], cases)
    assert run(net) == 1
    text = 'method "forward", input 0, call 2 in a row, output 0: the largest difference is 1 at'
    assert text in capfd.readouterr().err


def test_a_method_without_state_is_called_once() -> None:
    spec = ModelSpec({"forward": Method(torch.nn.Linear(2, 2), (torch.ones(1, 2),))})
    assert [case.calls for case in expected.of_model(spec)] == [1]


def test_a_difference_is_named(net: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    """Each output has a sentence of its own."""
    cases = expected.read(net["expected"])
    wrong = arrays.of_torch(torch.tensor([[2.0, 2.5, 2.0], [2.0, 2.0, 2.0]]))
    cases[0] = Case("forward", 0, False, cases[0].inputs, (wrong, cases[0].outputs[1]))
    cases[3] = Case("forward", 1, False, cases[3].inputs, cases[3].outputs[:1])
    cases[6] = Case("get_max_seq_len", 0, True, (), (64,))
    expected.write(net["expected"], cases)
    assert run(net) == 1
    printed = capfd.readouterr().err
    assert (
        'FAILED: //m:test: method "forward", input 0, output 0: the largest difference is 0.5 at '
        "[0, 1]: got 2, expected 2.5; 1 of 6 elements are outside of atol = 1e-06, rtol = 0"
    ) in printed
    text = 'method "forward", input 1: got 2 outputs, expected 1'
    assert f"FAILED: //m:test: {text}" in printed
    assert 'constant method "get_max_seq_len": got [128], expected [64]' in printed


def test_another_program_than_the_manifests(
    net: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """It is not loaded."""
    net["program"].write_bytes(net["program"].read_bytes() + b"\0")
    assert run(net) == 1
    assert "it is truncated, or of another build than its manifest." in capfd.readouterr().err


def test_a_crash_is_a_sentence(
    net: dict[str, Path], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program has a process of its own."""
    folder = net["program"].parent / "crashing"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        'if "etlower.cases" in sys.orig_argv: os.kill(os.getpid(), signal.SIGSEGV)\n'
    )
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    assert run(net) == 1
    text = "ERROR: //m:test: net.pte: ExecuTorch's runtime crashed with SIGSEGV."
    assert text in capfd.readouterr().err


def test_a_test_imports_no_torch() -> None:
    """It alone takes seconds. Neither does the process that runs the program."""
    code = (
        "import sys; sys.path[:0] = {}; import etlower.compare, etlower.cases;"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code.format(sys.path)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_a_text_is_no_input(net: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    """No app can give one; as an output it is compared."""
    cases = expected.read(net["expected"])
    cases[0] = dataclasses.replace(cases[0], inputs=("text",))
    expected.write(net["expected"], cases)
    assert run(net) == 1
    text = "method \"forward\", input 0: got the text 'text' as an input, which no app can give."
    assert text in capfd.readouterr().err


def test_what_the_runtime_lacks(net: dict[str, Path], capfd: pytest.CaptureFixture[str]) -> None:
    content = net["program"].read_bytes()
    assert b"aten::add" in content
    net["program"].write_bytes(content.replace(b"aten::add", b"aten::odd"))
    net["manifest"] = manifest_of(net["program"])
    assert run(net) == 1
    assert "on this machine lacks aten::odd.out." in capfd.readouterr().err


def test_older_runtimes_are_other_libraries(
    net: dict[str, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """This machine's library in place of one."""
    library = Path(executorch_app.__file__).parent.parent / "libexecutorch_app.so"
    version = executorch_app.runtime_info()["version"]
    for claimed, code in ((version, 0), ("1.4.1", 1)):
        older = ("--older", claimed, str(library), str(library), str(library))
        assert run(net, f"--executorch_version={version}", *older) == code
    printed, errors = capfd.readouterr()
    text = f"ExecuTorch 1.4.1: version of the runtime: got {version}, expected 1.4.1."
    assert errors == f"FAILED: //m:test: {text}\n"
    rows = [line.split() for line in printed.splitlines() if line.startswith((version, "1.4.1"))]
    assert [row[:2] for row in rows] == [[version, "0"]] * 3 + [["1.4.1", "inf"]]


def test_a_bundle_has_the_same_cases(net: dict[str, Path], tmp_path: Path) -> None:
    """The model does not run again."""
    from executorch.devtools.bundled_program.serialize import (
        deserialize_from_flatbuffer_to_bundled_program,
    )

    output = tmp_path / "net.bpte"
    paths = {"program": net["program"], "expected": net["expected"]}
    bundled.write(request(command="bundle", output=output, **paths))
    read = deserialize_from_flatbuffer_to_bundled_program(output.read_bytes())
    assert [suite.method_name for suite in read.method_test_suites] == ["forward"]
    outputs = [case.expected_outputs for case in read.method_test_suites[0].test_cases]
    assert [tuple(value.val.sizes) for value in outputs[1]] == [(2, 3), (2,)]
    assert torch.frombuffer(bytearray(outputs[1][0].val.data), dtype=torch.float32).tolist() == [
        2.0,
        1.0,
        1.0,
        1.0,
        2.0,
        1.0,
    ]


def test_models_of_several_methods(tmp_path: Path) -> None:
    """A program's test takes those that the program has, and constant ones."""
    double, half = torch.nn.Identity(), torch.nn.Flatten()
    spec = ModelSpec(
        {"a": Method(double, (torch.ones(1),)), "b": Method(half, (torch.ones(1, 2),))}, {"n": 1}
    )
    cases = list(expected.of_model(spec))
    assert [case.method for case in expected.chosen(cases, ["b"])] == ["b", "n"]
    assert [case.method for case in expected.chosen(cases, [])] == ["a", "b", "n"]
