"""Loading models: what an entry point may return, types that programs lack. Torch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from etbuild import BuildError, Method, ModelContext, ModelSpec
from etlower import model
from executorch.export import ExportRecipe
from executorch.runtime import Runtime
from quiet_torch import run
from request_files import install, request

pytestmark = pytest.mark.usefixtures("clean_imports")

HINT = (
    "Return (module, example_inputs), e.g. (Net().eval(), (torch.zeros(1, 8),)), or an "
    "etbuild.ModelSpec."
)
RETURNED = '//m:net: the entry point "net:build" returned'
X = torch.zeros(1, 4)


class Net(torch.nn.Module):
    """A layer with a parameter and a buffer of the given types."""

    def __init__(
        self, parameter: torch.dtype = torch.float32, buffer: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(4, dtype=parameter), requires_grad=False)
        self.register_buffer("scale", torch.ones(4, dtype=buffer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 4)."""
        return x + self.weight


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModelSpec]:
    """Loads a model whose entry point is a function, or returns a value."""

    def made(entry: Any, **fields: Any) -> ModelSpec:
        function = entry if inspect.isfunction(entry) else lambda: entry
        monkeypatch.setattr(model, "load", lambda *_: function)
        return model.load_spec(request(**fields))

    return made


@pytest.mark.parametrize(
    "value",
    [
        (Net(), (X,)),
        (Net(), [X]),
        Method(Net(), (X,)),
        ModelSpec({"forward": Method(Net(), (X,))}),
        ModelSpec({"forward": (Net(), (X,))}),  # type: ignore[dict-item]
    ],
    ids=["pair", "list", "method", "spec", "spec_of_pair"],
)
def test_all_that_an_entry_point_may_return(load: Callable[..., ModelSpec], value: Any) -> None:
    spec = load(value)
    method = spec.methods["forward"]
    assert list(spec.methods) == ["forward"]
    assert isinstance(method.module, Net)
    assert isinstance(method.example_inputs, tuple)
    assert torch.equal(method.example_inputs[0], X)


def test_models_are_put_into_inference_mode(load: Callable[..., ModelSpec]) -> None:
    net = torch.nn.Sequential(torch.nn.Dropout(0.5)).train()
    load((net, (X,)))
    assert not net.training
    assert not net[0].training


@pytest.mark.parametrize(
    "example",
    [torch.randn(4, 3).t(), torch.randn(1, 4).expand(3, 4), torch.randn(6, 4)[::2]],
    ids=["transposed", "expanded", "strided"],
)
def test_example_inputs_of_any_order_in_memory(
    load: Callable[..., ModelSpec], example: torch.Tensor
) -> None:
    """A program takes what the runtime takes: inputs that are contiguous."""
    net = torch.nn.Linear(4, 2)
    spec = load((net, (example,)))
    manager = run(spec, ExportRecipe(name="portable"))
    method = Runtime.get().load_program(manager.buffer).load_method("forward")
    x = torch.randn(3, 4)
    with torch.no_grad():
        assert torch.allclose(method.execute([x])[0], net(x), atol=1e-6)


def test_example_inputs_stay(load: Callable[..., ModelSpec]) -> None:
    """Contiguous ones, and those whose channels come last."""
    given = (X, torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last), {"n": 3})
    kept = load((Net(), given)).methods["forward"].example_inputs
    assert kept[0] is given[0]
    assert kept[1] is given[1]
    assert kept[2] == given[2]


def test_example_inputs_of_other_orders(load: Callable[..., ModelSpec]) -> None:
    """They get rows; so do those whose strides name another order beside rows."""
    x = torch.randn(1, 4, 3, 1)
    last = torch.channels_last_3d
    given = (
        *(x.permute(order) for order in ((0, 1, 2, 3), (3, 1, 2, 0), (2, 0, 1, 3))),
        *(x.expand(2, 4, 3, 5), x[:0].expand(0, 4, 3, 2)),
        torch.randn(2, 3, 4, 5, 6).to(memory_format=last),
    )
    kept = load((Net(), given)).methods["forward"].example_inputs
    for a, b in zip(kept, given, strict=True):
        assert torch.equal(a, b)
        assert a.dim_order() == tuple(range(b.dim()))


def test_all_fields_are_kept(load: Callable[..., ModelSpec]) -> None:
    shapes, calibration = {"x": {0: torch.export.Dim("n")}}, list
    method = Method(Net(), [X], shapes, strict=False, test_inputs=[(X + 1,)])  # type: ignore[arg-type]
    spec = load(ModelSpec({"a": method, "b": method}, {"get_n": 3}, calibration))
    assert list(spec.methods) == ["a", "b"]
    result = spec.methods["a"]
    assert (result.dynamic_shapes, result.strict) == (shapes, False)
    assert torch.equal(result.test_inputs[0][0], X + 1)
    assert (spec.constant_methods, spec.calibration) == ({"get_n": 3}, calibration)


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (None, "None, expected a ModelSpec or a pair."),
        (Net(), f"a {__name__}.Net, expected a ModelSpec or a pair."),
        ([Net(), (X,)], "a list, expected a ModelSpec or a pair."),
        ({"forward": Net()}, "a dict, expected a ModelSpec or a pair."),
        ((), "a tuple of 0 (), expected a ModelSpec or a pair."),
        (
            (Net(), (X,), None),
            "a tuple of 3 (Net, tuple, NoneType), expected a ModelSpec or a pair.",
        ),
        ((Net(), X), "a torch.Tensor as example_inputs, expected a tuple."),
        ((Net(), {"x": X}), "a dict as example_inputs, expected a tuple."),
        ((Net(), None), "None as example_inputs, expected a tuple."),
        ((X, (X,)), "a torch.Tensor as the module, expected a torch.nn.Module."),
        ((Net, (X,)), "a type as the module, expected a torch.nn.Module."),
        (Method(None, (X,)), "None as the module, expected a torch.nn.Module."),
    ],
)
def test_other_values_are_described(
    load: Callable[..., ModelSpec], value: Any, described: str
) -> None:
    with pytest.raises(BuildError) as caught:
        load(value)
    assert caught.value.what == f"{RETURNED} {described}"
    about_inputs = "example_inputs" in described
    assert caught.value.hint == (
        "A single input is written (x,), with the comma." if about_inputs else HINT
    )


@pytest.mark.parametrize("methods", [{}, None, [Method(Net(), (X,))]])
def test_a_spec_needs_methods_by_name(load: Callable[..., ModelSpec], methods: Any) -> None:
    with pytest.raises(BuildError) as caught:
        load(ModelSpec(methods))
    assert caught.value.what == f"{RETURNED} a ModelSpec without methods."


def test_a_method_of_a_spec_is_named(load: Callable[..., ModelSpec]) -> None:
    good = Method(Net(), (X,))
    with pytest.raises(BuildError) as caught:
        load(ModelSpec({"good": good, "bad": Net()}))  # type: ignore[dict-item]
    assert caught.value.what == (
        f'{RETURNED} for the method "bad" a {__name__}.Net, expected an etbuild.Method.'
    )


def test_entry_points_with_and_without_a_context(
    load: Callable[..., ModelSpec], tmp_path: Path
) -> None:
    seen = []

    def with_context(ctx: ModelContext) -> Any:
        seen.append((ctx.args, ctx.file("w.bin"), ctx.file("smollm/w.json"), ctx.label))
        return Net(), (X,)

    data = {"_main/models/w.bin": tmp_path / "w.bin", "smollm/w.json": tmp_path / "w.json"}
    load(with_context, data=data, arguments={"n": "1"})
    assert seen == [({"n": "1"}, tmp_path / "w.bin", tmp_path / "w.json", "//m:net")]
    load(lambda: (Net(), (X,)))


def test_random_weights_are_the_same_every_time(load: Callable[..., ModelSpec]) -> None:
    def weights() -> torch.Tensor:
        spec = load(lambda: (torch.nn.Linear(4, 4), (X,)))
        return spec.methods["forward"].module.weight

    first = weights()
    torch.manual_seed(7)
    assert torch.equal(weights(), first)


def test_the_entry_point_is_looked_up_by_name(tmp_path: Path) -> None:
    install(tmp_path, models__own="import torch\ndef build():\n    return torch.nn.ReLU(), ()\n")
    spec = model.load_spec(request(entry_point="models.own:build"))
    assert isinstance(spec.methods["forward"].module, torch.nn.ReLU)
    with pytest.raises(BuildError, match=r'^//m:net: entry_point = "models.own:made": .*no "made"'):
        model.load_spec(request(entry_point="models.own:made"))


def test_methods_are_chosen(load: Callable[..., ModelSpec]) -> None:
    spec = ModelSpec({n: Method(Net(), (X,)) for n in ("a", "b", "c")}, {"get_n": 1})
    assert list(load(spec, methods=("c", "a")).methods) == ["a", "c"]
    assert load(spec, methods=("c",)).constant_methods == {"get_n": 1}
    with pytest.raises(BuildError) as caught:
        load(spec, methods=("a", "decode"))
    assert str(caught.value) == (
        '//m:program: the model //m:net has no method "decode". Available: a, b, c.\n'
        "Correct the program's methods attribute."
    )


def test_names_of_methods(load: Callable[..., ModelSpec]) -> None:
    method = Method(Net(), (X,))
    with pytest.raises(BuildError) as caught:
        load(ModelSpec({"two words": method}))
    assert caught.value.what == ('//m:net: the method "two words": its name is not an identifier.')
    with pytest.raises(BuildError) as caught:
        load(ModelSpec({"forward": method, "get_n": method}, {"get_n": 1, "get_m": 2}))
    assert caught.value.what == '//m:net: "get_n" is both a method and a constant method.'


UNSUPPORTED = (
    "has the unsupported dtype complex64: ExecuTorch programs have no such tensors.\n"
    "Convert it, e.g. with .to(torch.float32), or view complex numbers as pairs "
    "(torch.view_as_real)."
)


@pytest.mark.parametrize(
    ("module", "inputs", "what"),
    [
        (Net(parameter=torch.complex64), (X,), 'the parameter "weight"'),
        (Net(buffer=torch.complex64), (X,), 'the buffer "scale"'),
        (torch.nn.Sequential(Net(buffer=torch.complex64)), (X,), 'the buffer "0.scale"'),
        (Net(), (X, X.to(torch.complex64)), "its example input 1"),
        (Net(), ([X, {"deep": X.to(torch.complex64)}],), "its example input 0"),
    ],
)
def test_types_that_programs_do_not_have(
    load: Callable[..., ModelSpec], module: torch.nn.Module, inputs: tuple[Any, ...], what: str
) -> None:
    with pytest.raises(BuildError) as caught:
        load((module, inputs))
    assert str(caught.value) == f'//m:net: the method "forward": {what} {UNSUPPORTED}'


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "int16", "int64", "float16", "float64", "bool", "bfloat16"]
)
def test_types_that_programs_have(load: Callable[..., ModelSpec], dtype: str) -> None:
    kind = getattr(torch, dtype)
    load((Net(kind, kind), (X.to(kind), 3, None, "text")))


def test_exported_programs_bring_their_inputs(load: Callable[..., ModelSpec]) -> None:
    """An entry point may return exported programs, with inputs or without; one is by keyword."""

    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    program = torch.export.export(Two(), (X,), {"y": X + 1})
    for value in (program, Method(program), (program, ()), ModelSpec({"forward": program})):  # type: ignore[dict-item]
        inputs = load(value).methods["forward"].example_inputs
        assert [v.tolist() for v in inputs] == [X.tolist(), (X + 1).tolist()]
    own = load((program, (X, X))).methods["forward"].example_inputs
    assert torch.equal(own[1], X)
    with pytest.raises(BuildError, match=r"a torch\.Tensor as example_inputs, expected a tuple"):
        load((program, X))
