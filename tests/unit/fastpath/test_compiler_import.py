"""torch's compiler is imported where a graph needs it, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from etfast import compiler_import
from torch._inductor.fx_passes import post_grad

# Imports ExecuTorch; prints whether the compiler was imported.
_IMPORT = """
import sys
from etfast import path
path.import_executorch("{lowering}")
from torch.export import _remove_auto_functionalized_pass as used
assert used.decompose_auto_functionalized.__module__.startswith("{module}")
for name in ("lowering", "fx_passes.post_grad"):
    print("torch._inductor." + name in sys.modules)
from torch._inductor.fx_passes import post_grad
assert hasattr(post_grad, "post_grad_passes")
"""


@pytest.mark.parametrize("module", sorted(compiler_import._KNOWN))
def test_knows_the_locked_version(module: str) -> None:
    """An update of torch with other sources fails here: compare them, and change the digest."""
    assert compiler_import.is_known(module)


@pytest.mark.parametrize(
    ("lowering", "module", "imported"),
    [
        pytest.param("fast", "etfast.compiler_import", "False", marks=pytest.mark.release),
        pytest.param("stock", "torch._inductor", "True", marks=pytest.mark.release),
    ],
)
def test_import(lowering: str, module: str, imported: str) -> None:
    """Later imports get the compiler itself."""
    code = _IMPORT.format(lowering=lowering, module=module)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [imported] * 2


@torch.library.custom_op("compiler_import::add_", mutates_args={"x"})
def add_(x: torch.Tensor) -> None:
    x.add_(1)


class Mutating(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        add_(y)
        return y


class Unused(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.fx.symbolic_trace(torch.nn.ReLU())


def mutating() -> Any:
    """A graph with auto_functionalized_v2, as functionalization leaves it."""
    exported = torch.export.export(Mutating(), (torch.ones(2),)).run_decompositions()
    module = exported.graph_module
    assert any("auto_functionalized" in str(node.target) for node in module.graph.nodes)
    return module


def unused() -> Any:
    """A graph that reads an attribute for nothing."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.get_attr("inner")
    graph.output(x)
    return torch.fx.GraphModule(Unused(), graph)


def plain() -> Any:
    """A graph in which there is nothing to do."""
    return torch.export.export(torch.nn.ReLU(), (torch.ones(2),)).graph_module


@pytest.mark.parametrize("make", [mutating, unused, plain])
def test_graphs_become_what_they_become_upstream(make: Any) -> None:
    modules = [make(), make()]
    compiler_import.decompose_auto_functionalized(modules[0].graph)
    post_grad.decompose_auto_functionalized(modules[1].graph)
    assert str(modules[0].graph) == str(modules[1].graph)
    attributes = [sorted(name for name, _ in module.named_modules()) for module in modules]
    assert attributes[0] == attributes[1]


def test_upstream_is_asked_where_there_is_something_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(post_grad, "decompose_auto_functionalized", asked.append)
    compiler_import.decompose_auto_functionalized(plain().graph)
    assert asked == []
    compiler_import.decompose_auto_functionalized(mutating().graph)
    compiler_import.decompose_auto_functionalized(unused().graph)
    assert len(asked) == 2
