"""Splitting and linking real programs, and running them with separate weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import Method, ModelSpec
from etfast import path as fast_path
from etlink import ptd
from etlink.link import link
from etlink.lowered import Lowered
from etlink.split import split
from etlower import capture, lower, stages
from etlower.progress import Progress
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from executorch.exir import ExecutorchBackendConfig
from executorch.export import ExportRecipe
from executorch.extension.flat_tensor.serialize.serialize import FlatTensorSerializer
from executorch.runtime import Runtime

RECIPES = {
    "portable": None,
    "fp32": XNNPackRecipeType.FP32,
    "int4": XNNPackRecipeType.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR,
    "int8": XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL,
}


class Net(torch.nn.Module):
    """Linear layers, equal biases, a table and a constant."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.table = torch.nn.Embedding(10, 64)
        for layer in (self.a, self.b):
            torch.nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        """(batch, 64)"""
        return self.b(torch.relu(self.a(x))) + self.table(i) + torch.tensor([1.5])


def spec() -> ModelSpec:
    """Two methods over one module, one of them dynamic, and metadata."""
    net, dim = Net().eval(), torch.export.Dim("n", max=16)
    i = torch.tensor([3])
    return ModelSpec(
        {
            "many": Method(net, (torch.randn(5, 64), i), dynamic_shapes=({0: dim}, None)),
            "one": Method(net, (torch.randn(1, 64), i)),
        },
        {"get_n": 5, "get_list": [1, 2]},
    )


def recipe(name: str) -> ExportRecipe:
    """One of RECIPES."""
    kind = RECIPES[name]
    return ExportRecipe.get_recipe(kind) if kind else ExportRecipe(name="portable")


def lowered(name: str, folder: Path) -> tuple[Path, Any, ModelSpec]:
    """Lowers; returns upstream's file, its manager and the model. The lowered program is beside."""
    model, names = spec(), capture.WeightNames()
    with fast_path.chosen("fast"), names.watching():
        manager = stages.run(model, recipe(name), Progress(), "//x:m", etrecord=False)
    path = folder / "upstream.pte"
    with open(path, "wb") as out:
        manager.write_to_file(out)
    hints = capture.hints(manager, names, path, folder, ExecutorchBackendConfig())
    split(path, folder / "lowered", "//x:p", lower.versions(), hints)
    return path, manager, model


@pytest.mark.few(2)
@pytest.mark.parametrize("name", sorted(RECIPES))
def test_link(name: str, tmp_path: Path) -> None:
    """Embedded: upstream's bytes. Separate: eager's numbers, and nothing of the weights inside."""
    upstream, _, model = lowered(name, tmp_path)
    link(Lowered(tmp_path / "lowered"), tmp_path / "e.pte")
    assert (tmp_path / "e.pte").read_bytes() == upstream.read_bytes()
    link(Lowered(tmp_path / "lowered"), tmp_path / "s.pte", tmp_path / "s.ptd")
    embedded = Runtime.get().load_program(upstream)
    program = Runtime.get().load_program(tmp_path / "s.pte", data_path=tmp_path / "s.ptd")
    for method, at in model.methods.items():
        expected = embedded.load_method(method).execute(list(at.example_inputs))[0].clone()
        got = program.load_method(method).execute(list(at.example_inputs))[0]
        assert torch.equal(got, expected)
    weights = 2 * 64 * 64 * (4 if name in ("portable", "fp32") else 0.5)
    assert (tmp_path / "s.ptd").stat().st_size > weights
    assert (tmp_path / "s.pte").stat().st_size < upstream.stat().st_size - weights / 2


@pytest.fixture(scope="module")
def portable_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data file of a portable program."""
    folder = tmp_path_factory.mktemp("portable")
    lowered("portable", folder)
    link(Lowered(folder / "lowered"), folder / "s.pte", folder / "s.ptd")
    return folder / "s.ptd"


def test_portable_names(portable_data: Path) -> None:
    """Weights of portable programs have their qualified names, shapes and bytes."""
    data = portable_data.read_bytes()
    result = ptd.read(portable_data)
    state = Net().state_dict()
    assert set(result) == set(state)
    for name, tensor in state.items():
        piece, layout = result[name]
        assert data[piece.offset : piece.offset + piece.size] == tensor.numpy().tobytes()
        assert layout is not None and layout.sizes == tuple(tensor.shape)


def test_upstream_reads_our_data_files(portable_data: Path) -> None:
    """Upstream's own reader finds the same keys."""
    from executorch.exir._serialize._cord import Cord

    payload = FlatTensorSerializer().deserialize(Cord(portable_data.read_bytes()))
    assert set(payload.named_data) == set(Net().state_dict())
    assert payload.named_data["a.weight"].tensor_layout.sizes == [64, 64]
