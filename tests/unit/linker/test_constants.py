"""Constants outside of a program, in the real runtime: numbers are those of eager. Needs torch."""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError, Method, ModelSpec
from etlink import payload, ptd
from etlink.link import Linked
from etlink.lowered import Lowered
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.export import ExportRecipe
from executorch.runtime import Runtime
from lora import WIDTH, Net, X, lowered, of_recipe, portable
from runner.runtime import Program
from synthetic import contents, link_with, only_program, shared_file

Y = torch.randn(4, 4, generator=torch.Generator().manual_seed(2))


class Base(torch.nn.Module):
    """A weight, a buffer and their sum, which nets below use in unusual ways."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.w = torch.nn.Parameter(torch.randn(4, 4, generator=generator))
        self.register_buffer("b", torch.randn(4, generator=generator))


class IsOutput(Base):
    """A weight that is an output, too, one that is nothing else, and one that is none."""

    def __init__(self) -> None:
        super().__init__()
        self.c = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> Any:
        """Three tensors of (4, 4) or (4,)."""
        return x @ self.w + self.c, self.w, self.b


class IsOutputTwice(Base):
    """One weight under two names, one of which is an output."""

    def __init__(self) -> None:
        super().__init__()
        self.again = torch.nn.Parameter(self.w.detach().clone())

    def forward(self, x: torch.Tensor) -> Any:
        """Tensors of (4, 4)."""
        return x @ self.w, self.again, self.again + x


class IsState(Base):
    """A state that begins with zeros, beside weights."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> Any:
        """Tensors of (4, 4) and (4,)."""
        self.state.add_(self.b)
        return x * self.state @ self.w, self.state.clone()


class IsInList(Base):
    """Weights in a list of tensors, and as an index."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("order", torch.tensor([2, 0, 1, 3]))
        self.register_buffer("scalar", torch.tensor(1.5))

    def forward(self, x: torch.Tensor) -> Any:
        """Tensors of (9, 4) and (4, 4)."""
        return torch.cat([self.w, x, self.b.view(1, 4)]), x[self.order] * self.scalar


class IsInBranch(Base):
    """Weights of both branches."""

    def forward(self, x: torch.Tensor) -> Any:
        """(4, 4)."""
        return torch.cond(x.sum() > 0, lambda y: y @ self.w, lambda y: y * self.b, (x,))


class IsPermuted(Base):
    """A weight with its channels last."""

    def __init__(self) -> None:
        super().__init__()
        value = torch.randn(2, 3, 2, 2, generator=torch.Generator().manual_seed(4))
        self.image = torch.nn.Parameter(value.to(memory_format=torch.channels_last))

    def forward(self, x: torch.Tensor) -> Any:
        """(2, 3, 2, 2) and (4, 4)."""
        return self.image * self.image, x * 2


class IsNormed(torch.nn.Module):
    """A layer with two tensors for its weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.fc = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 40))
        self.fc.parametrizations.weight.original0.data.mul_(3)

    def forward(self, x: torch.Tensor) -> Any:
        """(4, 40)."""
        return self.fc(x)


class IsNamedAsExportWould(torch.nn.Module):
    """Buffers of the author's that are called as export's own are."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale_1", torch.randn(4))
        self.register_buffer("_frozen_param0", torch.randn(4))

    def forward(self, x: torch.Tensor) -> Any:
        """(4, 4)."""
        return x * self.scale_1 + self._frozen_param0


NETS = [
    IsOutput,
    IsOutputTwice,
    IsState,
    IsInList,
    IsInBranch,
    IsPermuted,
    IsNormed,
    IsNamedAsExportWould,
]
# Upstream refuses to delegate a constant that is an output, too, or that changes.
NOT_DELEGATED = [IsOutput, IsState]
CASES = [(net, "portable") for net in NETS] + [
    (net, "xnnpack") for net in NETS if net not in NOT_DELEGATED
]


def build(net: torch.nn.Module, folder: Path, recipe: str, **config: Any) -> Lowered:
    """A lowered program of a net."""
    if recipe == "portable":
        return portable(net, Y, folder, "//m:p", **config)
    made = ExportRecipe.get_recipe(XNNPackRecipeType.FP32)
    return of_recipe(net, (Y,), folder, "//m:p", made, **config)


def run(
    linked: tuple[Linked, Path, Path], shared: Path | None = None, method: str = "forward"
) -> list[torch.Tensor]:
    """Runs a linked program."""
    summary, program, data = linked
    files = [path for path in (data, shared) if path and path.exists()]
    names = summary.manifest.files
    with Program(program, [path for path in files if path.name in names]) as opened:
        return [torch.from_numpy(value) for value in opened.run(method, [Y.numpy()])]


def eager(net: torch.nn.Module) -> list[torch.Tensor]:
    """Runs a net."""
    with torch.no_grad():
        result = net.eval()(Y.clone())
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize(("net", "recipe"), CASES)
@pytest.mark.few(3)
def test_numbers_are_those_of_eager(
    tmp_path: Path, net: type[torch.nn.Module], recipe: str
) -> None:
    torch.manual_seed(9)
    module = net()
    source = build(module, tmp_path / "l", recipe)
    expected = eager(module)
    index = shared_file(tmp_path / "s.ptd", "//m:s", source)
    for name, linked, shared in (
        ("embedded", link_with(source, tmp_path / "e"), None),
        ("separate", link_with(source, tmp_path / "d", separate=True), None),
        ("shared", link_with(source, tmp_path / "s", index), tmp_path / "s.ptd"),
    ):
        got = run(linked, shared)
        assert len(got) == len(expected), name
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")


def test_constants_that_are_outputs_stay(tmp_path: Path) -> None:
    source = build(IsOutput(), tmp_path / "l", "portable")
    _, _, data = link_with(source, tmp_path / "d", separate=True)
    assert list(contents(data)) == ["c"]
    source = build(IsOutputTwice(), tmp_path / "l2", "portable")
    _, _, data = link_with(source, tmp_path / "d2", separate=True)
    assert list(contents(data)) == ["w"]


def test_two_methods_share_a_weight(tmp_path: Path) -> None:
    class Other(torch.nn.Module):
        def __init__(self, base: Base) -> None:
            super().__init__()
            self.base = base

        def forward(self, x: torch.Tensor) -> Any:
            return x + self.base.w, self.base.w

    first = IsInList()
    spec = ModelSpec({"forward": Method(first, (Y,)), "other": Method(Other(first), (Y,))})
    source = of_recipe(spec, (), tmp_path / "l", "//m:p", ExportRecipe(name="portable"))
    linked = link_with(source, tmp_path / "d", separate=True)
    for method, module in (("forward", first), ("other", Other(first))):
        for got, expected in zip(run(linked, method=method), eager(module), strict=True):
            torch.testing.assert_close(got, expected)


def test_each_tensor_of_a_parametrization_has_its_name(tmp_path: Path) -> None:
    source = build(IsNormed(), tmp_path / "l", "portable")
    _, _, data = link_with(source, tmp_path / "d", separate=True)
    originals = [f"fc.parametrizations.weight.original{n}" for n in (0, 1)]
    assert list(contents(data)) == ["fc.bias", *originals]


def test_names_of_the_author_are_keys(tmp_path: Path) -> None:
    source = build(IsNamedAsExportWould(), tmp_path / "l", "portable")
    _, _, data = link_with(source, tmp_path / "d", separate=True)
    assert list(contents(data)) == ["_frozen_param0", "scale_1"]


# Payloads in the tables


class Doubled(torch.nn.Module):
    """Two layers; the second one's int8 weight is the first one's, with another scale."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        self.b = torch.nn.Linear(WIDTH, WIDTH, bias=False)
        with torch.no_grad():
            self.b.weight.copy_(self.a.weight * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, WIDTH)."""
        return self.b(torch.relu(self.a(x)))


@pytest.mark.parametrize("segments", [True, False])
def test_the_weight_cache_is_unsafe_wherever_payloads_lie(tmp_path: Path, segments: bool) -> None:
    kind = XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL
    config = {"extract_delegate_segments": segments}
    source = lowered(Doubled(), tmp_path / "l", "//m:p", kind, **config)
    linked, _, _ = link_with(source, tmp_path / "out")
    cache = only_program(linked).weight_cache
    assert len(cache.packed) == 1
    assert cache.reasons[0].startswith("a.weight and b.weight have equal bytes and are packed")


def test_the_nodes_that_pack_weights_are_those_of_upstreams_schema() -> None:
    """A node that is new here may pack a weight: judge it in payload.py, and count it."""
    package = importlib.resources.files("executorch.backends.xnnpack.serialization")
    schema = (package / "schema.fbs").read_text()
    (union,) = re.findall(r"union XNodeUnion \{(.*?)\}", schema, re.DOTALL)
    # Name and table; those without a table have their own name's.
    nodes = [(n, t or n) for n, t in re.findall(r"(XNN\w+)(?:: *(\w+))?", union)]
    with_filter = re.findall(r"table (\w+) \{[^}]*filter_id", schema)
    numbers = {name: n for n, (name, table) in enumerate(nodes, 1) if table in with_filter}
    assert set(numbers.values()) == {payload._FULLY_CONNECTED, *payload._CONVOLUTIONS}
    assert nodes[payload._MATRIX_MULTIPLY - 1][0] == "XNNBatchMatrixMultiply"
    assert nodes[payload._STATIC_PAD - 1][0] == "XNNStaticConstantPad"
    assert len(nodes) == payload.NODES


def test_a_payload_that_can_not_be_read_is_unsafe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As those of another version of XNNPACK's serialization would be.
    monkeypatch.setattr(payload, "MAGIC", b"XH99")
    source = lowered(Net(0), tmp_path / "l", "//m:p")
    (blob,) = source.index.unread
    linked, _, _ = link_with(source, tmp_path / "out")
    assert only_program(linked).weight_cache.reasons == (
        f"XNNPACK's payload with sha256 {blob} is of a form that is unknown here, so nothing says "
        "how its weights are packed",
    )


def test_adapters_of_payloads_in_the_tables(tmp_path: Path) -> None:
    nets = {"one": Net(1), "two": Net(2)}
    programs, data = [], []
    for name, net in nets.items():
        source = lowered(net, tmp_path / name, "//m:p", extract_delegate_segments=False)
        _, program, own = link_with(
            source, tmp_path / f"{name}_out", separate=True, adapter_data="by_name"
        )
        programs.append(program)
        data.append(own)
    assert programs[0].read_bytes() == programs[1].read_bytes()
    loaded = Runtime.get().load_program(programs[0], data_path=data[1]).load_method("forward")
    with torch.no_grad():
        torch.testing.assert_close(
            loaded.execute([X])[0].clone(), nets["two"].eval()(X), atol=1e-4, rtol=1e-4
        )


# Alignments


@pytest.mark.parametrize(
    "config",
    [
        {"constant_tensor_alignment": 64},
        {"constant_tensor_alignment": 256, "extract_delegate_segments": False},
        {"delegate_alignment": 512, "extract_delegate_segments": False},
        {"constant_tensor_alignment": 4, "delegate_alignment": 8, "segment_alignment": 32},
        {"segment_alignment": 4096, "delegate_alignment": 64},
    ],
)
@pytest.mark.few(2)
def test_bytes_are_upstreams_for_every_alignment(tmp_path: Path, config: Mapping[str, Any]) -> None:
    # Twice: what the linker does to upstream's classes must not change what upstream writes.
    for number in range(2):
        source = build(IsInList(), tmp_path / f"l{number}", "xnnpack", **config)
        upstream = (tmp_path / f"l{number}" / "upstream.pte").read_bytes()
        _, program, _ = link_with(source, tmp_path / f"out{number}")
        assert program.read_bytes() == upstream
        _, _, data = link_with(source, tmp_path / f"data{number}", separate=True)
        alignment = max(
            config.get(n, 1) for n in ("segment_alignment", "constant_tensor_alignment")
        )
        for _, (piece, _) in ptd.read(data).items():
            assert piece.offset % alignment == 0


# Equal bytes


def test_external_constants_of_equal_bytes_and_other_shapes(tmp_path: Path) -> None:
    class Equal(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide = torch.nn.Parameter(torch.ones(2, 4))
            self.tall = torch.nn.Parameter(torch.ones(4, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.tall @ self.wide

    net = Equal()
    source = build(net, tmp_path / "l", "portable", external_constants=True)
    linked, program, data = link_with(source, tmp_path / "out", separate=True)
    torch.testing.assert_close(run((linked, program, data))[0], eager(net)[0])


def test_an_output_that_the_recipe_moves_out_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match='an output is the weight "w"'):
        build(IsOutput(), tmp_path / "l", "portable", external_constants=True)
