"""Operators of a program that nothing registers; attention that is not fused."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from etbuild import BuildError, LowerAgain, Method, ModelSpec
from etlower import kernels, lower, undelegated
from executorch.exir import EdgeCompileConfig
from executorch.export import ExportRecipe, LoweringRecipe
from quiet_torch import run


def lowered(net: torch.nn.Module, *inputs: torch.Tensor) -> Any:
    spec = ModelSpec({"forward": Method(net.eval(), inputs)})
    # As upstream's recipes for backends have it: any operator may stay.
    config = EdgeCompileConfig(_check_ir_validity=False)
    recipe = ExportRecipe(name="any", lowering_recipe=LoweringRecipe(edge_compile_config=config))
    return run(spec, recipe)


def ran(manager: Any, *inputs: torch.Tensor) -> torch.Tensor:
    from executorch.extension.pybindings import portable_lib

    return portable_lib._load_for_executorch_from_buffer(manager.buffer).run_method(
        "forward", inputs
    )[0]


def encoder() -> torch.nn.Module:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2).eval()


class Counted(torch.nn.Module):
    """An operator of ATen's that no library has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(x) + 1


class Outer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), Counted()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


def test_a_model_is_lowered_again_where_a_partitioner_asks() -> None:
    attempts: list[str] = []

    def lower() -> Any:
        attempts.append("lowered")
        if len(attempts) < 3:
            raise LowerAgain
        return SimpleNamespace(methods=[])

    undelegated.lowered(lower, ExportRecipe(name="any"))
    assert len(attempts) == 3


def test_each_attempt_has_the_whole_model() -> None:
    """Upstream drops what a delegate has taken."""
    program = torch.export.export(Outer(), (torch.ones(2, 4),))
    program.constants["lifted"] = torch.ones(1)
    seen: list[set[str]] = []

    def lower() -> Any:
        seen.append({*program.constants, *program.state_dict})
        program.constants.clear()
        program.state_dict.clear()
        if len(seen) < 3:
            raise LowerAgain
        return SimpleNamespace(methods=[])

    partitioner = SimpleNamespace(partition=None)
    recipe = ExportRecipe(
        name="any",
        lowering_recipe=LoweringRecipe(
            partitioners=[partitioner],
            edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
        ),
    )
    undelegated.lowered(lower, recipe, [program])
    assert seen == [{"first.weight", "first.bias", "lifted"}] * 3


def test_an_operator_without_a_kernel_is_found_with_its_module() -> None:
    (result,) = kernels.missing(lowered(Outer(), torch.ones(2, 4)))
    [line] = result.pop("lines")
    assert re.fullmatch(r"test_kernels\.py:\d+", line)
    assert result == {
        "method": "forward",
        "operator": "aten::special_bessel_j0.out",
        "modules": ["second"],
        "foreign": False,
    }


def test_an_operator_that_upstream_refuses_is_named_with_its_line() -> None:
    """Recipes that check the graph fail while they lower, others when the program is linked."""
    spec = ModelSpec({"forward": Method(Outer(), (torch.ones(2, 4),))})
    with pytest.raises(BuildError) as caught:
        run(spec, ExportRecipe(name="portable"))
    assert re.fullmatch(
        r'//m:net: the method "forward" calls aten\.special_bessel_j0\.default '
        r"\(module second, \S*test_kernels\.py:\d+\) with float32 \[2, 4\], and no library of "
        r"ExecuTorch has a kernel for it\. .*preserve_ops.*",
        str(caught.value).replace("\n", " "),
    )


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda x: (x > 0) << 1,
            r'//m:net: torch\.export fails on the method "forward", \S*test_kernels\.py:\d+: '
            r"\w+Error: .*lshift: Expected .* torch\.bool'\) Write that line with .*",
        ),
        (
            lambda x: x * len(open(__file__).name),  # noqa: PTH123, SIM115
            r'//m:net: torch\.export fails on the method "forward", \S*test_kernels\.py:\d+: '
            r"Unsupported: .* Export the method without Dynamo, Method\(…, strict=False\).*",
        ),
    ],
)
def test_what_upstream_fails_on_is_named_with_its_line(function: Any, said: str) -> None:
    class Failing(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return function(x)

    spec = ModelSpec({"forward": Method(Failing(), (torch.ones(2, 4),))})
    with pytest.raises(BuildError) as caught:
        run(spec, ExportRecipe(name="portable"))
    assert re.fullmatch(said, str(caught.value).replace("\n", " ")), str(caught.value)


def test_a_list_of_single_numbers() -> None:
    """Upstream's check of graphs asks the first one how long the list is."""

    class Single(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return torch.unbind_copy(x[0])[0] * x.cos()

    assert run(
        ModelSpec({"forward": Method(Single(), (torch.ones(2, 4),))}), ExportRecipe(name="any")
    ).buffer


def test_an_operator_without_an_out_variant() -> None:
    """Upstream's own sentence has the name alone."""
    graph = torch.export.export(Outer(), (torch.ones(2, 4),)).graph_module
    with (
        pytest.raises(BuildError, match=r"calls aten\.special_bessel_j0.*test_kernels\.py:\d+"),
        kernels.explained(lambda: {"forward": graph}, "//m:net"),
    ):
        raise RuntimeError("Missing out variants: {'aten::special_bessel_j0'}")


@pytest.mark.parametrize("name", ["torch_nn::_attention", "quantized_decomposed::add"])
def test_an_operator_of_another_namespace_without_an_out_variant(name: str) -> None:
    with (
        pytest.raises(BuildError, match=f"//m:net: the model needs {name.replace('::', '.')}, and"),
        kernels.explained(dict, "//m:net"),
    ):
        raise RuntimeError(f"Missing out variants: {{'{name}'}}")


def test_registered_is_what_the_runtime_has() -> None:
    assert {"aten::add.out", "executorch_prim::et_view.default"} <= kernels.registered()


def test_fused_attention() -> None:
    """The exporter switches it off; where a model switches it on again, it is found."""
    x = torch.randn(1, 5, 8)
    lower.make_deterministic()
    manager = lowered(encoder(), x)
    assert kernels.missing(manager) == []
    torch.testing.assert_close(ran(manager, x), encoder()(x))
    torch.backends.mha.set_fastpath_enabled(True)
    try:
        operators = {one["operator"] for one in kernels.missing(lowered(encoder(), x))}
    finally:
        torch.backends.mha.set_fastpath_enabled(False)
    assert operators == {"aten::_transformer_encoder_layer_fwd.out"}


@torch.library.custom_op("alien::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


torch.library.define("alien::twice.out", "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")


@torch.library.impl("alien::twice.out", "CompositeExplicitAutograd")
def _(x: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    return out.copy_(x * 2)


class Alien(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.alien.twice(x)


def test_other_namespaces_are_the_apps_own() -> None:
    (result,) = kernels.missing(lowered(Alien(), torch.ones(2)))
    assert (result["operator"], result["foreign"]) == ("alien::twice.out", True)


class OfSizes(torch.nn.Module):
    """Computes with numbers that follow from a size."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.shape[1] ** -0.5,
        lambda x: x * 2.5 ** x.shape[1],
        lambda x: x * x.shape[1] ** 3,
        lambda x: x / torch._sym_sqrt(x.shape[1]),
        lambda x: x + x.shape[1] * 0.5,
        lambda x: x * math.floor(x.shape[1] * 0.5),
        lambda x: x * torch.sym_sum((x.shape[0], x.shape[1], x.shape[1])),
        lambda x: (x[0, :, None] * x[0]).reshape(x.shape[1] ** 2),
        lambda x: F.interpolate(x[None], scale_factor=1.5, mode="linear"),
        lambda x: F.interpolate(x[None, :, None], scale_factor=2.0, mode="bicubic"),
        lambda x: F.pad(x[None], (2, 1), mode="circular"),
        lambda x: F.pad(x[None], (x.shape[1] // 2, 0), mode="circular"),
        lambda x: torch.empty(x.shape[1]).fill_(2.0) + x,
        lambda x: x.new_empty(x.shape).copy_(x * 2) + torch.empty_like(x).zero_(),
    ],
)
def test_functions_of_sizes_that_vary(function: Any) -> None:
    """Upstream refuses most of them, or gives them the example's size."""
    net = OfSizes(function).eval()
    shapes = ({1: torch.export.Dim("n", min=4, max=12)},)
    inputs = (torch.ones(3, 9),)
    spec = ModelSpec({"forward": Method(net, inputs, dynamic_shapes=shapes, strict=False)})
    manager = run(spec, ExportRecipe(name="any"))
    for size in (4, 7, 12):
        x = torch.randn(3, size)
        torch.testing.assert_close(ran(manager, x), net(x))


def test_a_function_of_sizes_without_an_instruction() -> None:
    inputs = (torch.ones(3, 9),)
    shapes = ({1: torch.export.Dim("n", min=4, max=12)},)
    net = OfSizes(lambda x: x * (x.shape[1] << 2))
    spec = ModelSpec({"forward": Method(net, inputs, dynamic_shapes=shapes, strict=False)})
    message = r"computes lshift of s\d+ \(.*test_kernels\.py:\d+\), for which ExecuTorch has no"
    with pytest.raises(BuildError, match=message):
        run(spec, ExportRecipe(name="any"))
