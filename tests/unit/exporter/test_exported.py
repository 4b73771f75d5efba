"""Exported once, lowered with many recipes: the programs of the model itself, byte for byte."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etexport import exported, exporting, lower, pt2_write, stages, values
from etexport.progress import Progress
from etfast import path as fast_path
from executorch.exir import ExecutorchBackendConfig
from executorch.export import ExportRecipe
from executorch.export.recipe import LoweringRecipe, QuantizationRecipe
from request_files import request
from torch.export import Dim

lower.settle()


class Full(torch.nn.Module):
    """A weight in two places, a buffer that a call changes, one that isn't saved, a constant."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16, bias=False)
        self.again = torch.nn.Linear(16, 16, bias=False)
        self.again.weight = self.last.weight
        self.register_buffer("seen", torch.zeros(1, 16))
        self.register_buffer("scale", torch.linspace(1, 2, 16), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.again(torch.relu(self.first(x)) * self.scale)
        self.seen.add_(y.sum(0, keepdim=True))
        return self.last(y + torch.arange(16)) + self.seen


class Gradients(torch.nn.Module):
    """What torch's own encoder layer does: something else where gradients are wanted."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) if torch.is_grad_enabled() else self.layer(x.flatten()[None])


class Picture(torch.nn.Module):
    """A convolution and a normalization, for inputs whose channels come last."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Hardswish()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).mean((2, 3))


def full() -> ModelSpec:
    """Methods that share all of it, one of them for any batch, and inputs that are drawn late."""
    net, batch = Full().eval(), Dim("batch", min=2, max=8)
    many = Method(net, (torch.randn(4, 16),), {"x": {0: batch}}, test_inputs=[(torch.ones(2, 16),)])
    return ModelSpec(
        {"many": many, "one": Method(net, (torch.randn(1, 16),), strict=False)},
        {"get_name": "full", "get_sizes": [1, 2], "get_table": torch.arange(4.0)},
        lambda: {
            "one": ((torch.randn(1, 16),) for _ in range(2)),
            "many": ((torch.randn(size, 16),) for size in (2, 5)),
        },
    )


def gradients() -> ModelSpec:
    return ModelSpec({"forward": Method(Gradients().eval(), (torch.randn(1, 8),))})


def picture() -> ModelSpec:
    def draw() -> torch.Tensor:
        return torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last)

    calibration = [(draw(),) for _ in range(3)]
    return ModelSpec({"forward": Method(Picture().eval(), (draw(),))}, {}, lambda: calibration)


class Sizes(torch.nn.Module):
    """Sizes of two inputs in arithmetic: which of them a size is read from can be told."""

    def __init__(self, times: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.times, self.layer = times, torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.layer(x).repeat_interleave(self.times, 0)
        return x.view(x.shape[0] * 2, 4) + y.reshape(y.shape[0] * 2, 4)


def shared_sizes() -> ModelSpec:
    """Inputs with one dimension, and in another method with one that is twice the other's."""
    n = Dim("n", min=2, max=8)
    same = Method(Sizes(1).eval(), (torch.randn(4, 8), torch.randn(4, 8)), ({0: n}, {0: n}))
    twice = Method(Sizes(2).eval(), (torch.randn(4, 8), torch.randn(8, 8)), ({0: n}, {0: 2 * n}))
    return ModelSpec({"same": same, "twice": twice})


class Aliased(torch.nn.Module):
    """Buffers that are views of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 8)
        self.register_buffer("whole", self.layer.weight.detach())
        self.register_buffer("part", self.layer.weight.detach()[:4])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x @ self.whole)[:, :4] @ self.part


def aliased() -> ModelSpec:
    return ModelSpec({"forward": Method(Aliased().eval(), (torch.randn(2, 8),))})


def xnnpack(name: str) -> ExportRecipe:
    return getattr(xnnpack_recipes, name)(RecipeContext(Options({}, "//x:r"), "//x:r"))


def vulkan() -> ExportRecipe:
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    return ExportRecipe(name="vulkan", lowering_recipe=LoweringRecipe([VulkanPartitioner()]))


RECIPES: dict[str, Callable[[], ExportRecipe]] = {
    "portable": lambda: ExportRecipe(name="portable"),
    "vulkan": vulkan,
    "fp32": lambda: xnnpack("fp32"),
    "static": lambda: xnnpack("int8_static_per_channel"),
}


def made(net: Callable[[], ModelSpec]) -> ModelSpec:
    """A net, made as the exporter makes it."""
    torch.manual_seed(0)
    return net()


@contextlib.contextmanager
def at(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def export(spec: ModelSpec, folder: Path) -> Path:
    """Writes what et_exported_program writes of a net."""
    with fast_path.chosen("fast"):
        exporting.write(request(command="export", label="//m:x", output=folder), spec, Progress())
    return folder


def lowered(spec: ModelSpec, recipe: ExportRecipe, folder: Path) -> dict[str, str]:
    """sha256 of each file of a lowered program, by name."""
    (folder / "work").mkdir(parents=True)
    asked = request(output=folder / "out", recipe={"label": "//x:r"})
    lower._lower(asked, spec, recipe, Progress(), folder / "work" / "tree")
    return digests(folder / "out")


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


PAIRS = [
    *((full, name) for name in ("portable", "fp32", "static")),
    (gradients, "static"),
    (gradients, "fp32"),
    (picture, "static"),
    *((shared_sizes, name) for name in ("portable", "fp32")),
    (aliased, "portable"),
]
RARE_PAIRS = [(full, "vulkan"), (shared_sizes, "static"), (aliased, "static")]


@pytest.mark.parametrize(
    ("net", "recipe"),
    [
        *PAIRS,
        *(pytest.param(*pair, marks=pytest.mark.release) for pair in RARE_PAIRS),
    ],
    ids=[f"{net.__name__}-{name}" for net, name in PAIRS + RARE_PAIRS],
)
def test_same_program(net: Callable[[], ModelSpec], recipe: str, tmp_path: Path) -> None:
    """Tables, weights, their names, and what the report says."""
    expected = lowered(made(net), RECIPES[recipe](), tmp_path / "direct")
    folder = export(made(net), tmp_path / "exported")
    # Random numbers are drawn before; none may be wanted after.
    torch.manual_seed(1)
    got = lowered(exported.read(folder, request()), RECIPES[recipe](), tmp_path / "through")
    assert got == expected
    assert len(expected) > 3


def test_some_methods(tmp_path: Path) -> None:
    """A program with one of them reads that one, and calibrates as the model itself does."""
    folder = export(made(full), tmp_path / "exported")
    os.remove(folder / "many.pt2")
    asked = request(methods=("one",))
    through = exported.read(folder, asked)
    direct = made(full)
    direct = dataclasses.replace(direct, methods={"one": direct.methods["one"]})
    expected = lowered(direct, RECIPES["static"](), tmp_path / "direct")
    assert lowered(through, RECIPES["static"](), tmp_path / "through") == expected
    with pytest.raises(BuildError, match='has no method "two". Available: many, one'):
        exported.read(folder, request(methods=("two",)))


@pytest.mark.parametrize("name", ["../one.pt2", "/one.pt2", "", ".."])
def test_programs_lie_in_the_folder(tmp_path: Path, name: str) -> None:
    folder = export(made(full), tmp_path / "exported")
    listing = json.loads((folder / exported.LISTING).read_text())
    listing["methods"][0]["program"] = name
    (folder / exported.LISTING).write_text(json.dumps(listing))
    with pytest.raises(BuildError, match="expected the name of a file"):
        exported.read(folder, request())


def test_a_second_graph_only_where_gradients_make_one(tmp_path: Path) -> None:
    assert (export(made(gradients), tmp_path / "two") / "forward.captured.pt2").exists()
    assert sorted(path.name for path in export(made(full), tmp_path / "one").iterdir()) == [
        "many.pt2",
        "model.json",
        "one.pt2",
        "tensors.safetensors",
    ]


def test_the_same_bytes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, with a comment more, in a process that has exported before."""
    text = (
        "import torch\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.layer = torch.nn.Linear(4, 4)\n\n"
        "    def forward(self, x):\n        return torch.cond(x.sum() > 0, self.layer,"
        " lambda y: y + 1, (x,))\n"
    )
    result = []
    for number, source in enumerate((text, "# A comment.\n" + text)):
        folder = tmp_path / f"{number}"
        with at(folder):
            Path("net.py").write_text(source)
            described = importlib.util.spec_from_file_location("net", folder / "net.py")
            assert described and described.loader
            module = importlib.util.module_from_spec(described)
            monkeypatch.setitem(sys.modules, "net", module)
            described.loader.exec_module(module)
            torch.manual_seed(0)
            shapes = ({0: Dim("n", max=9)},)
            spec = ModelSpec({"go": Method(module.Net().eval(), (torch.ones(3, 4),), shapes)})
            result.append(digests(export(spec, folder / "out")))
    assert result[0] == result[1]
    program = (tmp_path / "0/out/go.pt2").read_bytes()
    assert str(tmp_path).encode() not in program and b"net.py" not in program


def test_buffers_in_the_memory_of_parameters_have_no_gradients(tmp_path: Path) -> None:
    result = exported.read(export(made(aliased), tmp_path / "out"), request())
    state = result.methods["forward"].module.state_dict
    assert {name for name, tensor in state.items() if tensor.requires_grad} == {
        "layer.weight",
        "layer.bias",
    }


def attributes(value: Any) -> Any:
    """What tells dynamic shapes apart."""
    if isinstance(value, dict):
        return {key: attributes(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(attributes(item) for item in value)
    if isinstance(value, Dim):
        return value.__name__, value.min, value.max
    return value


@pytest.mark.parametrize(
    "shapes",
    [
        None,
        ({0: Dim("n", max=8)}, None),
        {"x": (Dim("n", min=2), 4), "y": [Dim.AUTO, Dim.STATIC, Dim.DYNAMIC(min=2, max=5)]},
        {"x": {1: 2 * Dim("half", min=1, max=4) + 1}, "more": {"a": {0: Dim("n") + 3}}},
    ],
)
def test_dynamic_shapes_are_kept(shapes: Any) -> None:
    form = json.loads(json.dumps(values.shapes_form(shapes)))
    assert attributes(values.shapes_of(form)) == attributes(shapes)


def test_values_are_kept() -> None:
    """Types and strides, also of tensors that overlap; a tensor is written once."""
    table = torch.arange(24.0).reshape(2, 3, 4)
    tensors = values.Tensors()
    result = [
        table.permute(2, 0, 1),
        torch.ones(1).expand(5),
        table[:, 1:],
        torch.zeros(0, 3),
        torch.tensor(True),
    ]
    value = ({"a": result, 1: None}, [True, 2, 0.1, "text"], (result[0],))
    back = values.value_of(json.loads(json.dumps(tensors.value(value))), tensors.by_name)
    for got, expected in zip(back[0]["a"], result, strict=True):
        assert torch.equal(got, expected) and got.stride() == expected.stride()
    assert back[1:] == ([True, 2, 0.1, "text"], back[2]) and back[0][1] is None
    assert len(tensors.by_name) == len(result)


class Strange:
    """A value of a class of the model's own."""


def one(**more: Any) -> ModelSpec:
    net = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval()
    spec = {name: more.pop(name) for name in ("constant_methods", "calibration") if name in more}
    return ModelSpec({"forward": Method(net, (torch.ones(2, 4),), **more)}, **spec)


@torch.library.custom_op("own::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Own(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.own.twice(x)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (one(test_inputs=[(Strange(),)]), 'a test input of the method "forward" has a .*Strange'),
        (one(constant_methods={"get": Strange()}), 'the constant method "get" has a .*Strange'),
        (one(calibration=lambda: [(Strange(),)]), "a calibration input has a .*Strange"),
        (
            ModelSpec({"forward": Method(Own(), (torch.ones(2),))}),
            'of the method "forward" calls the operator own::twice, which Python code registers',
        ),
    ],
)
def test_what_can_not_be_kept(spec: ModelSpec, message: str, tmp_path: Path) -> None:
    """With the way out: the model itself."""
    with pytest.raises(BuildError, match=f'(?s)//m:net: .*{message}.*model = "//m:net"'):
        export(spec, tmp_path / "out")


def quantized(**fields: Any) -> ExportRecipe:
    return ExportRecipe(quantization_recipe=QuantizationRecipe(**fields))


TORCHAO = xnnpack("int8_dynamic_act_int4_weight")
STATIC = xnnpack("int8_static_per_channel")
STACKS = ExportRecipe(executorch_backend_config=ExecutorchBackendConfig(emit_stacktrace=True))
COLLECTION = torch.export.ShapesCollection()


@pytest.mark.parametrize(
    ("recipe", "spec", "message"),
    [
        (TORCHAO, one(), r"quantizes the layers of an eager model \(torchao\)"),
        (STACKS, one(), r"wants stack traces in the program \(emit_stacktrace\)"),
        (ExportRecipe(strict=False), one(), "wants strict = False where it was exported with"),
        (quantized(quantizers=[None], is_qat=True), one(), r"trains it \(QAT\)"),
        (STATIC, one(dynamic_shapes=COLLECTION), ".*takes its dynamic shapes"),
    ],
)
def test_recipes_that_do_not_fit(
    recipe: ExportRecipe, spec: ModelSpec, message: str, tmp_path: Path
) -> None:
    """They name the model that does."""
    result = exported.read(export(spec, tmp_path / "out"), request())
    start = 'm:x: the method "forward" was exported before .et_exported_program., and the recipe'
    with pytest.raises(BuildError, match=f'{start} {message}(?s:.*)model = "//m:net"'):
        exported.check_recipe(result, recipe, "//m:x")


def test_recipes_that_fit_after_all(tmp_path: Path) -> None:
    """A method with a strict of its own has that with every recipe; PT2E captures by itself."""
    own = exported.read(export(one(strict=True), tmp_path / "own"), request())
    exported.check_recipe(own, ExportRecipe(strict=False), "//m:x")
    default = exported.read(export(one(), tmp_path / "default"), request())
    exported.check_recipe(default, dataclasses.replace(STATIC, strict=False), "//m:x")


def test_a_program_that_the_model_exports_itself(tmp_path: Path) -> None:
    """Is kept as it is, strict or not; PT2E wants static shapes of it, as it does without."""
    net, shapes = torch.nn.Sequential(torch.nn.Linear(4, 4)).eval(), ({0: Dim("n", max=8)},)
    program = torch.export.export(net, (torch.ones(2, 4),), dynamic_shapes=shapes, strict=False)
    spec = ModelSpec({"forward": Method(program, (torch.ones(2, 4),))})
    result = exported.read(export(spec, tmp_path / "out"), request())
    exported.check_recipe(result, ExportRecipe(strict=True), "//m:x")
    with pytest.raises(BuildError, match="with dynamic shapes, and the recipe quantizes it"):
        stages.run(result, STATIC, Progress(), "//m:x", etrecord=False)


def test_a_method_that_pt2e_can_not_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other recipes take it."""

    def fail(*_: Any) -> None:
        raise RuntimeError("not with gradients")

    monkeypatch.setattr(exporting, "capture", fail)
    result = exported.read(export(one(), tmp_path / "out"), request())
    exported.check_recipe(result, ExportRecipe(), "//m:x")
    with pytest.raises(BuildError, match="takes another kind of export that failed"):
        exported.check_recipe(result, STATIC, "//m:x")


def test_a_file_that_is_damaged(tmp_path: Path) -> None:
    folder = export(one(), tmp_path / "out")
    (folder / "forward.pt2").write_bytes(b"no archive")
    with pytest.raises(BuildError, match=r"forward.pt2, cannot be read(?s:.*)model = \"//m:net\""):
        exported.read(folder, request())
    (folder / "model.json").write_text("{")
    with pytest.raises(BuildError, match="model.json is not an exported model"):
        exported.read(folder, request())


def test_where_nodes_came_from_is_kept() -> None:
    """Debug handles are counted by it; graphs are numbers, modules, too."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    program = torch.export.export(net, (torch.ones(1, 4),), strict=True)
    pt2_write.neutral(program)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    sources = [source for node in nodes for source in node.meta["from_node"]]
    assert sources and all(0 <= source.graph_id < 9 for source in sources)
    assert {node.meta["stack_trace"] for node in nodes} == {pt2_write._NOWHERE}
    keys = {key for node in nodes for key in node.meta["nn_module_stack"]}
    assert keys and all(len(key) < 12 for key in keys)
