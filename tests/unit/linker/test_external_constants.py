"""Our data files against upstream's external constants, and eager's numbers. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError, Method, ModelSpec
from etfast import path as fast_path
from etlink import ptd, pte
from etlink.link import link
from etlink.lowered import Lowered
from etlink.split import split
from etlower import capture, lower, stages
from etlower.progress import Progress
from executorch.exir import ExecutorchBackendConfig
from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
from executorch.export import ExportRecipe
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from executorch.runtime import Runtime

lower.make_deterministic()
X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))


class Net(torch.nn.Module):
    """A convolution, layers that share a weight, equal buffers, and a constant without a name."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.linspace(1, 2, 8))
        self.register_buffer("same_scale", torch.linspace(1, 2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 4, 8, 8)."""
        x = self.second(torch.relu(self.first(self.conv(x)))) * self.scale + self.same_scale
        return x + torch.tensor([1.5])


class Cache(torch.nn.Module):
    """A layer whose outputs add up: weights, and a state that is none."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("sum", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(1, 4)."""
        self.sum += self.layer(x)
        return self.sum.clone()


@dataclass
class Built:
    """A portable program, lowered: its folder, upstream's manager, and the two linked files."""

    folder: Path
    manager: Any
    program: Path
    data: Path


def build(model: torch.nn.Module, x: torch.Tensor, folder: Path, **config: Any) -> Built:
    """Lowers as the exporter does, and links with a data file."""
    backend = ExecutorchBackendConfig(**config)
    recipe = ExportRecipe(name="portable", executorch_backend_config=backend)
    spec, names = ModelSpec({"forward": Method(model.eval(), (x,))}), capture.WeightNames()
    with fast_path.chosen("fast"), names.watching():
        manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False)
    with open(folder / "upstream.pte", "wb") as out:
        manager.write_to_file(out)
    hints = capture.hints(manager, names, folder / "upstream.pte", folder, backend)
    split(folder / "upstream.pte", folder / "lowered", "//m:p", lower.versions(), hints)
    built = Built(folder, manager, folder / "p.pte", folder / "p.ptd")
    link(Lowered(folder / "lowered"), built.program, built.data)
    return built


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The model, as every recipe lowers it."""
    return build(Net(), X, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def external(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The model with a recipe that has upstream move the constants out."""
    return build(Net(), X, tmp_path_factory.mktemp("external"), external_constants=True)


def run(program: Path, data: Path | None, x: torch.Tensor) -> torch.Tensor:
    """Runs a program in ExecuTorch's runtime."""
    loaded = Runtime.get().load_program(program, data_path=data).load_method("forward")
    return loaded.execute([x])[0].clone()


def contents(path: Path) -> dict[str, bytes]:
    """Key to bytes of a data file."""
    whole = path.read_bytes()
    return {k: whole[p.offset : p.offset + p.size] for k, (p, _) in ptd.read(path).items()}


def layouts(path: Path) -> dict[str, Any]:
    """Key to layout of a data file."""
    return {key: layout for key, (_, layout) in ptd.read(path).items()}


def test_keys_bytes_and_layouts_are_upstreams(plain: Built, external: Built) -> None:
    (cord,) = external.manager._tensor_data.values()
    upstream = plain.folder / "upstream.ptd"
    with open(upstream, "wb") as out:
        cord.write_to_file(out)
    assert contents(plain.data) == contents(external.data) == contents(upstream)
    assert layouts(plain.data) == layouts(external.data) == layouts(upstream)
    model = Net()
    state = dict(model.named_parameters()) | dict(model.named_buffers())
    expected = {n: t.detach().contiguous().numpy().tobytes() for n, t in state.items()}
    assert contents(plain.data) == expected


def test_the_program_finds_its_weights_and_has_eagers_numbers(
    plain: Built, external: Built
) -> None:
    expected = Net().eval()(X).detach()
    for built in (plain, external):
        torch.testing.assert_close(run(built.program, built.data, X), expected)
    with pytest.raises(RuntimeError):
        run(plain.program, None, X)


def test_what_has_no_name_stays(plain: Built) -> None:
    read = pte.read(plain.program)
    ((start, size),) = read.segments
    constant = torch.tensor([1.5]).numpy().tobytes()
    assert plain.program.read_bytes()[start : start + size] == constant


def test_equal_weights_are_stored_once(plain: Built) -> None:
    pieces = {key: piece for key, (piece, _) in ptd.read(plain.data).items()}
    assert pieces["scale"] == pieces["same_scale"]
    assert len({piece.offset for piece in pieces.values()}) == len(pieces) - 1


def test_such_a_recipe_can_not_embed(external: Built) -> None:
    with pytest.raises(BuildError, match="its recipe moves 7 constants out of the program"):
        link(Lowered(external.folder / "lowered"), external.folder / "embedded.pte")


def test_a_state_is_no_weight(tmp_path: Path) -> None:
    x = torch.ones(1, 4)
    built = build(Cache(), x, tmp_path)
    assert set(contents(built.data)) == {"layer.weight", "layer.bias"}
    with torch.no_grad():
        torch.testing.assert_close(run(built.program, built.data, x), Cache()(x))


def test_we_read_upstreams_files(tmp_path: Path) -> None:
    buffers = [b"one" * 50, b"two" * 500]
    entries = {
        "b": DataEntry(buffer_index=0, alignment=1, tensor_layout=None),
        "a": DataEntry(buffer_index=1, alignment=16, tensor_layout=None),
        "c": DataEntry(buffer_index=0, alignment=1, tensor_layout=None),
    }
    cord = FlatTensorSerializer().serialize(DataPayload(buffers=buffers, named_data=entries))
    (tmp_path / "theirs.ptd").write_bytes(bytes(cord))
    expected = {"a": buffers[1], "b": buffers[0], "c": buffers[0]}
    assert contents(tmp_path / "theirs.ptd") == expected


class Empty(torch.nn.Module):
    """A weight, and a tensor without elements, which stays in the program."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, 3))
        self.empty = torch.nn.Parameter(torch.zeros(0, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(2, 3)."""
        return torch.cat([x * self.weight, self.empty])


def test_an_empty_tensor_keeps_its_segment(tmp_path: Path) -> None:
    """The runtime takes a constant segment without bytes for none, and refuses the program."""
    x = torch.randn(2, 3)
    built = build(Empty(), x, tmp_path)
    assert set(contents(built.data)) == {"weight"}
    torch.testing.assert_close(run(built.program, built.data, x), x)
