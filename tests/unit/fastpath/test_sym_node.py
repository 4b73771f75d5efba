"""Symbolic sizes: the same expressions, hints and types as upstream's."""

from __future__ import annotations

import operator

import pytest
import torch
from etfast import fake_tensor_cache, path
from torch._dynamo.source import ConstantSource
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

OPERATORS = ("add", "sub", "mul", "eq", "ne", "ge", "gt", "le", "lt")


def symbols(env: ShapeEnv) -> list[torch.SymInt]:
    """Two sizes, 5 and 9, and one that depends on data."""
    result = []
    for name, value in (("a", 5), ("b", 9)):
        source = ConstantSource(name)
        symbol = env.create_symbol(value, source, dynamic_dim=DimDynamic.DYNAMIC)
        result.append(env.create_symintnode(symbol, hint=value, source=source))
    return [*result, env.create_unbacked_symint()]


def results() -> list[tuple[str, object, type, object]]:
    """Lists the results of all operators for all pairs, twice."""
    result = []
    for _ in range(2):
        a, b, u = symbols(ShapeEnv())
        numbers = [a, b, u, a + b, a * 4, 3]
        for name in OPERATORS:
            for left in numbers:
                for right in numbers:
                    if left is right is numbers[-1]:
                        continue
                    made = getattr(operator, name)(left, right)
                    node = getattr(made, "node", None)
                    expression = str(node.expr) if node else str(made)
                    kind = node.pytype if node else type(made)
                    result.append((expression, node and node.hint, kind, type(made)))
    return result


def test_as_upstream() -> None:
    """Sums of sums included, for which torch has a way of its own."""
    theirs = results()
    with path.installed(path.units(["sym_node"])) as used:
        assert used.active == ["sym_node"]
        assert results() == theirs


def test_each_result_is_a_node_of_its_own() -> None:
    """Tracers tell sizes apart by their nodes."""
    with path.installed(path.units(["sym_node"])):
        a, b, _ = symbols(ShapeEnv())
        assert (a * b).node is not (a * b).node
        assert (a * b).node.shape_env is a.node.shape_env


def test_quantizing_operators_are_kept() -> None:
    """The second call comes from the cache and says the same."""
    import executorch.exir  # noqa: F401  registers quantized_decomposed
    import torchao.quantization  # noqa: F401

    assert fake_tensor_cache.depends_on_shapes(torch.ops.torchao.quantize_affine.default)
    function = torch.ops.quantized_decomposed.quantize_per_tensor.default
    assert fake_tensor_cache.depends_on_shapes(function)
    with path.installed(path.units(["fake_tensor_cache"])), FakeTensorMode() as mode:
        args = (torch.empty(4, 32), 0.1, 0, -128, 127, torch.int8)
        # The cache is the process's, and other tests have used it.
        bypasses = mode.cache_info().bypasses
        first = function(*args)
        hits = mode.cache_info().hits
        second = function(*args)
        assert mode.cache_info().hits == hits + 1
        assert mode.cache_info().bypasses == bypasses
        assert (first.shape, first.dtype) == (second.shape, second.dtype) == ((4, 32), torch.int8)


@pytest.mark.parametrize("function", [torch.ops.aten.add.Tensor, torch.ops.aten.view.default, len])
def test_others_are_left_to_torch(function: object) -> None:
    """Views and operators of torch's own go by its rules."""
    assert not fake_tensor_cache.depends_on_shapes(function)
