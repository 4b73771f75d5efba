"""Programs whose backend or kernels are Python's, in the runtime that apps have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import programs
import pytest
import torch
from etbuild.dtypes import DTYPES
from etbuild.errors import BuildError
from runner import emulated, runtime, torch_kernels

# What the backend does now; it is registered once in a process.
_making: list[Callable[[emulated.Delegate], emulated.Run]] = []
_delegates: list[emulated.Delegate] = []


def _make(delegate: emulated.Delegate) -> emulated.Run:
    _delegates.append(delegate)
    return _making[-1](delegate)


class Add(torch.nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a + b


_ROWS = (torch.arange(6.0).reshape(2, 3), torch.ones(2, 3))


@pytest.fixture
def program(tmp_path: Path) -> Path:
    emulated.register_backend(programs.BACKEND, _make)
    return programs.delegated(tmp_path / "net.pte", Add(), _ROWS)


def run(path: Path, function: Callable[..., Any], inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    _making.append(lambda _: function)
    with runtime.Program(path) as opened:
        return opened.run("forward", inputs)


def add(values: Sequence[Any]) -> list[np.ndarray]:
    return [values[0] + values[1]]


def test_a_delegate_gets_its_part_of_the_program(program: Path) -> None:
    read: dict[str, bytes] = {}

    def make(delegate: emulated.Delegate) -> emulated.Run:
        read.update({key: delegate.named_data(key) for key in programs.DATA})
        return add

    _making.append(make)
    inputs = [np.arange(6, dtype="f4").reshape(2, 3), np.full((2, 3), 10, "f4")]
    with runtime.Program(program) as opened:
        (got,) = opened.run("forward", inputs)
    np.testing.assert_array_equal(got, inputs[0] + inputs[1])
    assert _delegates[-1].payload == programs.PAYLOAD
    assert _delegates[-1].specs == programs.SPECS
    assert read == programs.DATA


def test_inputs_are_read_only(program: Path) -> None:
    def spoil(values: Sequence[Any]) -> list[np.ndarray]:
        values[0][...] = 0
        return add(values)

    with pytest.raises(BuildError, match="EmulatedTestBackend failed: ValueError: .*read-only"):
        run(program, spoil, [row.numpy() for row in _ROWS])


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ([np.zeros((2, 3), "f8")], r"its output 0: got float64, expected float32"),
        ([np.zeros((3, 3), "f4")], r"its output 0: got the shape \(3, 3\), expected \(2, 3\)"),
        ([np.zeros(6, "f4")], r"its output 0: got the shape \(6,\), expected \(2, 3\)"),
        ([np.zeros((2, 3), "f4")] * 4, "it returned 4 outputs, expected at most 3"),
    ],
)
def test_wrong_outputs(program: Path, outputs: list[np.ndarray], reason: str) -> None:
    with pytest.raises(BuildError, match=reason):
        run(program, lambda _: outputs, [row.numpy() for row in _ROWS])


def test_what_an_emulator_raises_is_the_reason(program: Path) -> None:
    def fail(_: Sequence[Any]) -> list[np.ndarray]:
        raise NotImplementedError("the operator\n  RopeNode is not emulated")

    with pytest.raises(BuildError) as caught:
        run(program, fail, [row.numpy() for row in _ROWS])
    assert str(caught.value.what).startswith(
        "net.pte: the emulator of EmulatedTestBackend failed: NotImplementedError: the operator "
        "RopeNode is not emulated (test_emulated.py:"
    )
    # The next run does not have the last one's reason.
    (got,) = run(program, add, [row.numpy() for row in _ROWS])
    np.testing.assert_array_equal(got, _ROWS[0] + 1)


def test_a_payload_that_is_refused(program: Path) -> None:
    def refuse(delegate: emulated.Delegate) -> emulated.Run:
        delegate.named_data("missing")
        return add

    _making.append(refuse)
    with (
        pytest.raises(BuildError, match="cannot load its part .*no data named 'missing'"),
        runtime.Program(program) as opened,
    ):
        opened.load("forward")


def test_names_that_the_runtime_has() -> None:
    with pytest.raises(BuildError, match="the emulated backend XnnpackBackend: the runtime ref"):
        emulated.register_backend("XnnpackBackend", _make)
    with pytest.raises(
        BuildError, match=r"the emulated kernel aten::add\.out: the runtime refused"
    ):
        emulated.register_kernel("aten::add.out", np.add)


def test_an_emulator_that_cannot_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.EMULATORS, "no_such_emulator")
    with pytest.raises(BuildError, match="the emulator no_such_emulator cannot be installed: Mod"):
        runtime.load_libraries()


def test_outputs_of_other_sizes(tmp_path: Path) -> None:
    emulated.register_backend(programs.BACKEND, _make)
    rows = torch.export.Dim("rows", min=1, max=8)
    shapes = {"a": {0: rows}, "b": {0: rows}}
    path = programs.delegated(tmp_path / "net.pte", Add(), _ROWS, shapes)
    for count in (8, 1, 5):
        inputs = [np.random.rand(count, 3).astype("f4") for _ in range(2)]
        (got,) = run(path, add, inputs)
        np.testing.assert_array_equal(got, inputs[0] + inputs[1])


def test_outputs_have_the_order_of_their_dimensions(tmp_path: Path) -> None:
    emulated.register_backend(programs.BACKEND, _make)
    picture = torch.arange(24.0).reshape(1, 2, 3, 4).to(memory_format=torch.channels_last)
    path = programs.delegated(tmp_path / "net.pte", Add(), (picture, picture + 1))
    orders = []

    def look(values: Sequence[Any]) -> list[np.ndarray]:
        orders.append([value.strides for value in values])
        return add(values)

    (got,) = run(path, look, [picture.numpy(), picture.numpy()])
    np.testing.assert_array_equal(got, 2 * picture)
    assert orders == [[(96, 4, 32, 8)] * 3]


# Upstream's exporter writes no programs with uint64.
_TYPES = [dtype for dtype in DTYPES if dtype.numpy and dtype.name != "uint64"]


@pytest.mark.parametrize("dtype", _TYPES, ids=lambda dtype: dtype.name)
@pytest.mark.few(5)
def test_every_type_of_numbers(tmp_path: Path, dtype: Any) -> None:
    name = f"keep_{dtype.name}"
    programs.define(name, "Tensor a", "Tensor", torch.clone, torch.empty_like)
    emulated.register_kernel(f"emutest::{name}.out", lambda a: a[::-1])
    operator = getattr(torch.ops.emutest, name)

    class Keep(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return operator(a)

    tensor = torch.tensor([0, 1, 1, 0, 1]).to(getattr(torch, dtype.name))
    path = programs.with_operators(tmp_path / "net.pte", Keep(), (tensor,))
    bits = tensor.view(torch.uint16) if dtype.name == "bfloat16" else tensor
    with runtime.Program(path) as opened:
        (got,) = opened.run("forward", [bits.numpy()])
    np.testing.assert_array_equal(got, bits.numpy()[::-1])


def test_values_of_all_kinds_and_several_outputs(tmp_path: Path) -> None:
    arguments = (
        "Tensor a, int n, float f, bool b, str s, int[] list, Tensor[] tensors, Tensor? none, "
        "bool[2] flags, float[] reals, Tensor?[] some"
    )

    def fake(a: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.empty_like(a), a.new_empty([2])

    programs.define("all_kinds", arguments, "(Tensor, Tensor)", fake, fake)
    seen: list[Any] = []

    def kernel(*values: Any) -> tuple[np.ndarray, np.ndarray]:
        seen.extend(values)
        return values[0] + 1, np.array([7, 8], "f4")

    emulated.register_kernel("emutest::all_kinds.out", kernel, outputs=2)

    class Net(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.ops.emutest.all_kinds(
                a, -5, 2.5, True, "text", [3, 4], [a, a], None, [True, False], [0.5], [None, a]
            )

    path = programs.with_operators(tmp_path / "net.pte", Net(), (_ROWS[0],))
    rows = _ROWS[0].numpy()
    with runtime.Program(path) as opened:
        first, second = opened.run("forward", [rows])
    np.testing.assert_array_equal(first, rows + 1)
    np.testing.assert_array_equal(second, [7, 8])
    tensors, some = seen[6], seen[10]
    assert seen[1:6] == [-5, 2.5, True, "text", [3, 4]]
    assert seen[7:10] == [None, [True, False], [0.5]]
    assert len(tensors) == 2 and some[0] is None
    for tensor in (seen[0], *tensors, some[1]):
        np.testing.assert_array_equal(tensor, rows)


def test_a_kernel_gives_its_output_a_size(tmp_path: Path) -> None:
    def fake(a: torch.Tensor) -> torch.Tensor:
        size = torch.library.get_ctx().new_dynamic_size(min=0, max=6)
        return a.new_empty([size])

    def positive(a: torch.Tensor) -> torch.Tensor:
        return a[a > 0]

    programs.define("positive", "Tensor a", "Tensor", positive, fake)
    emulated.register_kernel("emutest::positive.out", lambda a: a[a > 0])

    class Net(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return torch.ops.emutest.positive(a) * 2

    path = programs.with_operators(tmp_path / "net.pte", Net(), (torch.ones(6),))
    for row in ([1, -1, 2, -2, 3, -3], [-1] * 6, [1] * 6):
        values = np.array(row, "f4")
        with runtime.Program(path) as opened:
            (got,) = opened.run("forward", [values])
        np.testing.assert_array_equal(got, 2 * values[values > 0])


def test_a_kernel_that_fails(tmp_path: Path) -> None:
    programs.define("broken", "Tensor a", "Tensor", torch.clone, torch.empty_like)
    emulated.register_kernel("emutest::broken.out", lambda a: a / np.array({}))

    class Net(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return torch.ops.emutest.broken(a)

    path = programs.with_operators(tmp_path / "net.pte", Net(), (torch.ones(6),))
    with (
        pytest.raises(BuildError, match=r"net\.pte: the emulated kernel emutest::broken\.out fail"),
        runtime.Program(path) as opened,
    ):
        opened.run("forward", [np.ones(6, "f4")])


@pytest.mark.few(4)
# Last: it registers what no test before it has registered.
@pytest.mark.parametrize("dtype", _TYPES, ids=lambda dtype: dtype.name)
def test_torch_computes_every_type(tmp_path: Path, dtype: Any) -> None:
    """References get tensors of the program's types, bfloat16 too, and not their bits."""
    seen: list[torch.dtype] = []

    def double(a: torch.Tensor) -> torch.Tensor:
        seen.append(a.dtype)
        return (a.to(torch.float64) * 2).to(a.dtype)

    name = f"double_{dtype.name}"
    programs.define(name, "Tensor a", "Tensor", double, torch.empty_like)
    torch_kernels.register_namespace("emutest")
    operator = getattr(torch.ops.emutest, name)

    class Net(torch.nn.Module):
        def forward(self, a: torch.Tensor) -> torch.Tensor:
            return operator(a)

    tensor = torch.tensor([0, 1, 1, 0, 1]).to(getattr(torch, dtype.name))
    path = programs.with_operators(tmp_path / "net.pte", Net(), (tensor,))
    as_array = (lambda t: t.view(torch.uint16)) if dtype.name == "bfloat16" else (lambda t: t)
    seen.clear()
    with runtime.Program(path) as opened:
        (got,) = opened.run("forward", [as_array(tensor).numpy()])
    assert seen == [tensor.dtype]
    np.testing.assert_array_equal(got, as_array(double(tensor)).numpy())
