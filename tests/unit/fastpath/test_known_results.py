"""Results are known where an operator gave the same for what says the same; delegates', too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import nets
import pytest
import torch
from etbuild import ModelSpec
from etfast import delegates, fake_tensors, path
from etfast.known_results import Seen
from etlower import lower, stages
from etlower.progress import Progress
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.lowered_backend_module import LoweredBackendModule
from recipes import xnnpack
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

lower.make_deterministic()

_ADD = torch.ops.aten.add.Tensor


def _seen(mode: Any, *args: torch.Tensor) -> Seen:
    result = Seen()
    result.put(mode, _ADD, args, {}, _ADD(*args), args)
    return result


def _holds(seen: Seen, mode: Any, value: Any, *args: Any, target: Any = _ADD) -> bool:
    return seen.holds(mode, target, args, {}, value, args)


def test_an_operator_gives_the_same_for_what_says_the_same() -> None:
    with FakeTensorMode() as mode:
        seen = _seen(mode, torch.empty(4, 4), torch.empty(4))
        x, y = torch.empty(4, 4), torch.empty(4)
        assert _holds(seen, mode, torch.empty(4, 4), x, y)
        # Another result, other arguments, another operator, another mode.
        assert not _holds(seen, mode, torch.empty(4, 4).t(), x, y)
        assert not _holds(seen, mode, torch.empty(4, 5), x, y)
        assert not _holds(seen, mode, torch.empty(4, 4), x, torch.empty(4, dtype=torch.float64))
        assert not _holds(seen, mode, torch.empty(4, 4), x.t(), y)
        assert not _holds(seen, mode, torch.empty(4, 4), x, y, target=torch.ops.aten.sub.Tensor)
        # What is returned as it is came from elsewhere.
        assert not _holds(seen, mode, x, x, y)
        with torch.no_grad():
            assert not _holds(seen, mode, torch.empty(4, 4), x, y)
    with FakeTensorMode() as other:
        assert not _holds(seen, other, torch.empty(4, 4), torch.empty(4, 4), torch.empty(4))


def test_a_symbolic_size_is_no_number() -> None:
    """And looking at it doesn't make it one."""
    shapes = ({0: torch.export.Dim("n")},)
    program = torch.export.export(torch.nn.ReLU(), (torch.zeros(3, 4),), dynamic_shapes=shapes)
    value = next(node for node in program.graph.nodes if node.op == "placeholder").meta["val"]
    rows, columns = fake_tensors.description(value)[4]
    assert columns == 4
    assert rows not in (3, value.shape[0].node.expr)
    assert value.shape[0].node.expr.free_symbols


@pytest.fixture
def delegated(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[LoweredBackendModule, Any]]]:
    """The delegates that a lowering asked for, and what was known of each."""
    result: list[tuple[LoweredBackendModule, Any]] = []
    outputs = delegates.outputs

    def watched(module: Any, args: Any, mode: Any) -> Any:
        known = outputs(module, args, mode)
        result.append((module, known))
        if known is not None:
            with mode:
                run = executorch_call_delegate(module, *args)
            pairs = zip(_leaves(run), _leaves(known), strict=True)
            assert type(run) is type(known)
            assert all(fake_tensors.description(a) == fake_tensors.description(b) for a, b in pairs)
        return known

    monkeypatch.setattr(delegates, "outputs", watched)
    yield result


def _leaves(value: Any) -> list[FakeTensor]:
    return torch.utils._pytree.tree_leaves(value)


@pytest.mark.parametrize("net", [nets.diamond, nets.outputs, nets.attention, nets.picture])
@pytest.mark.parametrize("recipe", ["fp32", "int8_dynamic_act_int4_weight"])
@pytest.mark.few(2)
def test_delegates_give_what_their_graphs_would(
    net: Any, recipe: str, delegated: list[tuple[LoweredBackendModule, Any]]
) -> None:
    """Known without running them, and the same as if they were run."""
    with path.chosen("fast"):
        stages.run(_frozen(net()), xnnpack(recipe), Progress(), "//t:net", etrecord=False)
    assert delegated
    assert all(known is not None for _, known in delegated)


def test_gradients_are_upstreams(delegated: list[tuple[LoweredBackendModule, Any]]) -> None:
    """Inputs of a delegate have gradients where weights do; its outputs do not."""
    with path.chosen("fast"):
        stages.run(nets.diamond(), xnnpack("fp32"), Progress(), "//t:net", etrecord=False)
    assert delegated
    assert all(known is None for _, known in delegated)


def _frozen(spec: ModelSpec) -> ModelSpec:
    """A net whose weights have no gradients."""
    for method in spec.methods.values():
        method.module.requires_grad_(False)
    return spec


def test_a_changed_graph_is_run(delegated: list[tuple[LoweredBackendModule, Any]]) -> None:
    """A node whose value isn't what its operator gives."""
    with path.chosen("fast"):
        net = _frozen(nets.diamond())
        stages.run(net, xnnpack("fp32"), Progress(), "//t:net", etrecord=False)
    module, known = delegated[-1]
    graph = module.original_module.graph
    inputs = [node.meta["val"] for node in graph.nodes if node.op == "placeholder"]
    mode = inputs[0].fake_mode
    specs = module.original_module.graph_signature.input_specs
    given = [v for v, s in zip(inputs, specs, strict=True) if s.kind.name == "USER_INPUT"]
    assert known is not None and delegates.outputs(module, given, mode) is not None
    assert delegates.outputs(module, given, FakeTensorMode()) is None
    assert delegates.outputs(module, given[:-1], mode) is None
    node = next(n for n in graph.nodes if n.op == "call_function")
    with mode:
        node.meta["val"] = torch.empty_like(node.meta["val"])
    assert delegates.outputs(module, given, mode) is None


def test_symbols_of_a_mode_that_knows_none() -> None:
    """A pass may make fake tensors in a mode of its own, of the program's sizes."""
    own = FakeTensorMode(shape_env=ShapeEnv())
    given = own.from_tensor(torch.ones(3, 5), symbolic_context=_any_size())
    with FakeTensorMode() as other:
        made = other.from_tensor(torch.ones(1))
        made = made.new_empty(given.shape)
    assert other.shape_env is None
    assert fake_tensors.learned(made) == fake_tensors.learned(given)


def _any_size() -> StatelessSymbolicContext:
    return StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
