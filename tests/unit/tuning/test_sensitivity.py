"""Sensitivities of layers: against real programs, with texts, and what cannot be measured."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etfast import path
from etlower import layers, stages
from etlower.arrays import to_torch
from etlower.cases import outputs_of
from etlower.eager import eager_outputs
from etlower.expected import plain
from etlower.outputs import leaves, sqnr_db
from etlower.overrides import Override, mixed
from etlower.progress import Progress
from etlower.quantize import quantize
from ettune import choose, sensitivity
from ettune.replay import Replay, Sample
from ettune.sensitivity import Choice, Data
from executorch.export import ExportRecipe
from runner.runtime import Program

INT4 = "int8_dynamic_act_int4_weight"
INT8 = "int8_static_per_channel"


class Net(torch.nn.Module):
    """Layers of other sizes of weights, so that each one costs another amount."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(
            torch.nn.ModuleDict({"up": torch.nn.Linear(64, 64), "down": torch.nn.Linear(64, 64)})
            for _ in range(3)
        )
        self.head = torch.nn.Linear(64, 32)
        with torch.no_grad():
            for number, block in enumerate(self.layers):
                block["up"].weight[:, 0] *= 2 + 14 * (number * 2 % 3)
                block["down"].weight *= 0.3 + 0.8 * (number % 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 64)"""
        for block in self.layers:
            x = x + block["down"](torch.relu_(block["up"](x)))
        return self.head(x)


def made(name: str) -> ExportRecipe:
    """One of our XNNPACK recipes."""
    return getattr(xnnpack_recipes, name)(RecipeContext(Options({}, "//x:r"), "//x:r"))


def spec() -> ModelSpec:
    """The network, on a few rows."""
    net = Net().eval()
    return ModelSpec({"forward": Method(net, (torch.randn(8, 64),))})


def data(of: ModelSpec) -> Data:
    """Its example input."""
    return Data([Sample("forward", of.methods["forward"].example_inputs)])


def measured(*names: str) -> dict[str, Any]:
    """The network's sensitivities to recipes."""
    model = spec()
    choices = [Choice(f"//x:{name}", made(name)) for name in names]
    return sensitivity.measure(model, choices, data(model), "//x:net")


def ratio_of_program(layer: str, name: str, folder: Path) -> float:
    """The ratio of a real program in which only one layer is quantized."""
    model = spec()
    override = Override(layer, f"//x:{name}", made(name))
    recipe = mixed(made("fp32"), [override], "//x:mixed")
    with path.chosen("fast"):
        manager = stages.run(model, recipe, Progress(), "//x:net", etrecord=False)
    file = folder / f"{layer}.pte"
    file.write_bytes(manager.buffer)
    inputs = model.methods["forward"].example_inputs
    (got,) = call(file, inputs)
    (expected,) = eager_outputs(model.methods["forward"].module, inputs)
    return sqnr_db(got, expected)


def call(file: Path, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    """The outputs of a program's only method."""
    with Program(file) as program:
        return list(map(to_torch, outputs_of(program, "forward", plain(leaves(inputs), "inputs"))))


# PT2E quantizes the output of a layer with its activation, and only the layer is measured.
@pytest.mark.parametrize(
    ("recipe", "within", "step"),
    [
        (INT4, 0.5, 2),
        pytest.param(INT4, 0.5, 1, marks=pytest.mark.release),
        pytest.param(INT8, 3.0, 2, marks=pytest.mark.release),
    ],
)
def test_the_ranking_is_that_of_real_programs(
    recipe: str, within: float, step: int, tmp_path: Path
) -> None:
    """By brute force: each layer quantized alone, lowered, and run."""
    rows = {row["names"][0]: row["recipes"][0] for row in measured(recipe)["layers"]}
    ours = {name: row["only"]["sqnr_db"] for name, row in rows.items()}
    assert len(ours) == 7
    real = {name: ratio_of_program(name, recipe, tmp_path) for name in list(ours)[::step]}
    for name in real:
        assert ours[name] == pytest.approx(real[name], abs=within), name
    apart = [(a, b) for a in real for b in real if real[a] > real[b] + within]
    assert len(apart) > 12 // step**2
    assert all(ours[a] > ours[b] for a, b in apart)


def test_runs_that_begin_at_a_layer_give_the_same() -> None:
    """As whole runs, bit by bit, whatever layer is replaced."""
    modules = layers.copies(spec(), "//x:net")
    replay = Replay(modules, data(spec()).samples)
    recording = replay.record()
    for layer in layers.find(modules):
        layer.variants.append(torch.nn.Linear(64, layer.module.out_features))
        layer.put(0)
        again = replay.run(recording, [layer.module])
        assert torch.equal(again[0][0], replay.record().outputs[0][0]), layer.name
        layer.put(None)
    assert torch.equal(replay.record().outputs[0][0], recording.outputs[0][0])


def test_calls_before_the_layer_are_not_repeated() -> None:
    """The last layer costs one call, and the first all."""
    modules = layers.copies(spec(), "//x:net")
    replay = Replay(modules, data(spec()).samples)
    recording = replay.record()
    calls: list[str] = []
    for name, module in modules["forward"].named_modules():
        module.register_forward_hook(lambda *_, name=name: calls.append(name))
    replay.run(recording, [modules["forward"].head])
    assert calls == ["head", ""]


class InPlace(torch.nn.Module):
    """Modules that work in place, or hand on, what a later layer's neighbor reads."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.kind = kind
        self.up, self.down = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.relu, self.same = torch.nn.ReLU(inplace=True), torch.nn.Identity()
        self.state = torch.nn.Module()
        self.state.register_buffer("sum", torch.zeros(8))
        self.adder, self.keeper = Adder(self.state), Keeper()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 8)"""
        y = self.up(x)
        if self.kind == "activation":
            z = self.relu(y)
        elif self.kind == "identity":
            z = self.same(y)
            z.mul_(2.0)
        elif self.kind == "buffer":
            z = self.adder(y)
        else:
            held: dict[str, torch.Tensor] = {}
            z = self.keeper(y, Cache(held))
            y = held["y"]
        return y + self.down(z) + self.state.sum


class Adder(torch.nn.Module):
    """Changes the buffer of another module."""

    def __init__(self, state: torch.nn.Module) -> None:
        super().__init__()
        self.states = [state]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.states[0].sum.add_(x.sum(0))
        return x * 2


class Cache:
    """Something that torch does not know."""

    def __init__(self, held: dict[str, torch.Tensor]) -> None:
        self.held = held


class Keeper(torch.nn.Module):
    """Puts a tensor into a cache."""

    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        cache.held["y"] = x + 1
        return x * 2


@pytest.mark.parametrize("kind", ["activation", "identity", "buffer", "cache"])
def test_what_is_done_in_place_is_done_again(kind: str) -> None:
    """A call that changes something is not left out of a run that begins behind it."""
    net = InPlace(kind).eval()
    samples = [Sample("forward", (torch.randn(4, 8),))]
    modules = layers.copies(ModelSpec({"forward": Method(net, samples[0].inputs)}), "//x:net")
    replay = Replay(modules, samples)
    recording = replay.record()
    (layer,) = [layer for layer in layers.find(modules) if layer.name == "down"]
    layer.variants.append(torch.nn.Linear(8, 8))
    layer.put(0)
    again = replay.run(recording, [layer.module])
    assert torch.equal(again[0][0], replay.record().outputs[0][0])
    assert torch.equal(again[0][0], modules["forward"](*samples[0].inputs))


class Nested(torch.nn.Module):
    """A module with a matrix of its own, and a layer in it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(64, 64) * 0.1)
        self.inner, self.head = torch.nn.Linear(64, 64), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.inner(x @ self.table)))


class LowRank(torch.nn.Linear):
    """A layer that is also a module with layers in it."""

    def __init__(self) -> None:
        super().__init__(64, 64)
        self.down, self.up = torch.nn.Linear(64, 32), torch.nn.Linear(32, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + self.up(self.down(x))


@pytest.mark.parametrize(
    ("made_of", "names", "float_bytes", "least"),
    [
        (Nested, ["inner", "head"], 41344, 16384 + 2816 + 1408),
        # torchao takes the outer one only.
        (LowRank, [""], 33408, 2816 + 8320 + 8448),
    ],
)
def test_layers_in_layers(
    made_of: type[torch.nn.Module], names: list[str], float_bytes: int, least: int
) -> None:
    """Each has its own weights, and the mixture of all can be built."""
    net = torch.nn.ModuleDict({"net": made_of()}).eval()
    whole = torch.nn.Sequential(net["net"]).eval()
    model = ModelSpec({"forward": Method(whole, (torch.randn(8, 64),))})
    choices = [Choice(f"//x:{name}", made(name)) for name in ("fp32", INT4)]
    result = sensitivity.measure(model, choices, data(model), "//x:net")
    assert result["float"]["bytes"] == float_bytes
    expected = sorted(f"0.{name}".rstrip(".") for name in names)
    assert sorted(row["names"][0] for row in result["layers"]) == expected
    smallest = result["front"][-1]
    assert (smallest["bytes"], result["all"][1]["bytes"]) == (least, least)
    recipe = mixed(
        made("fp32"),
        [Override(n, "//x:int4", made(INT4)) for n, number in smallest["layers"].items() if number],
        "//x:tuned",
    )
    modules = {"forward": whole}
    got = eager_outputs(
        stages.transform_sources(modules, recipe, "//x:net")["forward"],
        data(model).samples[0].inputs,
    )
    expected_outputs = eager_outputs(whole, data(model).samples[0].inputs)
    assert sqnr_db(got[0], expected_outputs[0]) == pytest.approx(smallest["sqnr_db"], abs=0.01)


@pytest.mark.release
def test_static_recipes_are_calibrated_as_the_program_is() -> None:
    """With other inputs than those that are measured with."""
    model = spec()
    (inputs,) = model.methods["forward"].example_inputs
    larger = [Sample("forward", (inputs * 20,))]
    choices = [Choice(f"//x:{INT8}", made(INT8))]
    ours = Data(data(model).samples, calibration=larger)
    with_larger = sensitivity.measure(model, choices, ours, "//x:net")
    without = sensitivity.measure(model, choices, data(model), "//x:net")
    assert with_larger["all"][0]["sqnr_db"] < without["all"][0]["sqnr_db"] - 10
    calibrated = ModelSpec(model.methods, calibration=lambda: [larger[0].inputs])
    with path.chosen("fast"):
        graph = quantize(
            {"forward": model.methods["forward"].module}, calibrated, made(INT8), "//x:net"
        )["forward"]
    got = eager_outputs(graph, (inputs,))
    expected = eager_outputs(model.methods["forward"].module, (inputs,))
    ratio = sqnr_db(got[0], expected[0])
    assert with_larger["all"][0]["sqnr_db"] == pytest.approx(ratio, abs=4.0)


# A layer, and what follows it.
_PAIRS = [
    ("linear", "nothing"),
    ("linear", "relu"),
    ("convolution", "nothing"),
    ("convolution", "relu"),
    ("convolution", "in_place"),
    ("convolution", "norm_relu"),
    ("groups", "relu"),
    ("depthwise", "relu"),
    ("one_channel", "nothing"),
    ("of_rows", "nothing"),
    ("transposed", "relu"),
    ("even", "nothing"),
]


class Kinds(torch.nn.Module):
    """Layers of many kinds side by side, each with what may follow it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        nn = torch.nn
        makers: dict[str, Callable[[], torch.nn.Module]] = {
            "linear": lambda: nn.Linear(32, 32),
            "convolution": lambda: nn.Conv2d(32, 32, 3),
            "groups": lambda: nn.Conv2d(32, 32, 3, groups=4),
            "depthwise": lambda: nn.Conv2d(32, 32, 3, groups=32),
            "one_channel": lambda: nn.Conv2d(1, 32, 3),
            "of_rows": lambda: nn.Conv1d(32, 32, 3),
            "transposed": lambda: nn.ConvTranspose2d(32, 32, 3),
            "even": lambda: nn.Conv2d(32, 32, 4, padding="same"),
        }
        followers: dict[str, Callable[[], list[torch.nn.Module]]] = {
            "nothing": lambda: [],
            "relu": lambda: [nn.ReLU()],
            "in_place": lambda: [nn.ReLU(inplace=True)],
            "norm_relu": lambda: [nn.BatchNorm2d(32), nn.ReLU()],
        }
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.parts = nn.ModuleDict()
        for kind, name in _PAIRS:
            self.parts[f"{kind}_{name}"] = nn.Sequential(makers[kind](), *followers[name]())
            shape = (4, 32) if kind == "linear" else (1, 32, 9, 9)
            shape = (1, 32, 9) if kind == "of_rows" else shape
            shape = (1, 1, 9, 9) if kind == "one_channel" else shape
            self.shapes[f"{kind}_{name}"] = shape

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """One for each."""
        return tuple(part(x) for part, x in zip(self.parts.values(), inputs, strict=True))


@pytest.mark.release
@pytest.mark.parametrize(
    "name",
    [
        "int8_dynamic_per_channel",
        *(pytest.param(n, marks=pytest.mark.release) for n in (INT8, INT4)),
    ],
)
def test_what_is_promised_is_what_the_program_has(name: str, tmp_path: Path) -> None:
    """A layer is quantized, and is as exact, as promised, whatever follows it."""
    net = Kinds().eval()
    inputs = tuple(torch.randn(shape) for shape in net.shapes.values())
    model = ModelSpec({"forward": Method(net, inputs)})
    result = sensitivity.measure(model, [Choice("//x:r", made(name))], data(model), "//x:net")
    promised = {row["names"][0]: row["recipes"][0] for row in result["layers"]}
    with path.chosen("fast"):
        manager = stages.run(model, made(name), Progress(), "//x:net", etrecord=False)
    file = tmp_path / "program.pte"
    file.write_bytes(manager.buffer)
    got = call(file, inputs)
    expected = eager_outputs(net, inputs)
    for part, ours, theirs in zip(net.parts, got, expected, strict=True):
        real, row = sqnr_db(ours, theirs), promised.get(f"parts.{part}.0")
        if name == INT8 or row:
            # A normalization that is folded changes what the layer's share of the noise is.
            within = 16.0 if "norm" in part else 4.0
            assert row and row["only"]["sqnr_db"] == pytest.approx(real, abs=within), part
        else:
            assert real > 90, part


class Words(torch.nn.Module):
    """Predicts words; its cache is a buffer that each call changes."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = torch.nn.Embedding(vocabulary, 32)
        self.output = torch.nn.Linear(32, vocabulary)
        self.register_buffer("sum", torch.zeros(32))
        self.generate_full_logits = False

    def forward(self, tokens: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """(1, tokens) and (1), to (1, tokens, vocabulary)."""
        x = self.embedding(tokens)
        self.sum += x.sum((0, 1))
        x = x + 0.1 * self.sum
        return self.output(x if self.generate_full_logits else x[:, -1:])


def words() -> ModelSpec:
    """A language model that reads four tokens at once."""
    inputs = (torch.zeros(1, 4, dtype=torch.long), torch.zeros(1, dtype=torch.long))
    constants = {"get_max_seq_len": 4, "get_max_context_len": 8, "get_eos_ids": [0]}
    return ModelSpec({"forward": Method(Words(16).eval(), inputs)}, constants)


def test_a_text_is_scored_by_perplexity() -> None:
    """In pieces of what the model reads at once, each with a state of its own."""
    model = words()
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    text = sensitivity.text_of(model, tokens, "pi.txt", "//x:net")
    assert [s.next_tokens for s in text.samples] == [(1, 4, 1, 5), (9, 2, 6)]
    choices = [Choice("//x:fp32", made("fp32")), Choice("//x:int4", made(INT4))]
    result = sensitivity.measure(model, choices, text, "//x:net")
    net, loss = words().methods["forward"].module, 0.0
    net.generate_full_logits = True
    for piece in (tokens[:5], tokens[4:]):
        net.sum.zero_()
        with torch.no_grad():
            logits = net(torch.tensor([piece[:-1]]), torch.tensor([0]))[0]
        target = torch.tensor(piece[1:])
        loss += float(torch.nn.functional.cross_entropy(logits, target, reduction="sum"))
    assert result["float"]["perplexity"] == pytest.approx(math.exp(loss / 7), abs=1e-4)
    # The embedding has weights, too, but no recipe for them.
    (layer,) = result["layers"]
    assert (layer["names"], result["tokens"]) == (["output"], 7)
    assert layer["recipes"][1]["only"]["perplexity"] == result["all"][1]["perplexity"]
    # 4 bits for each weight, a scale of four bytes for 32 of them, and the bias.
    assert layer["recipes"][1]["bytes"] == 16 * 32 // 2 + 16 * 4 + 16 * 4


def test_what_cannot_be_measured() -> None:
    """Each error says what to do."""
    model = spec()
    with pytest.raises(BuildError, match="//x:fp32 quantizes no layer of the model"):
        sensitivity.measure(model, [Choice("//x:fp32", made("fp32"))], data(model), "//x:net")
    with pytest.raises(BuildError, match="does not read several tokens at once"):
        sensitivity.text_of(model, [1, 2], "a.txt", "//x:net")
    with pytest.raises(BuildError, match="a.txt: got 1 tokens, expected at least 2"):
        sensitivity.text_of(words(), [1], "a.txt", "//x:net")
    inputs = model.methods["forward"].example_inputs
    exported = torch.export.export(model.methods["forward"].module, inputs)
    with pytest.raises(BuildError, match='"forward" is an exported program'):
        layers.copies(ModelSpec({"forward": Method(exported, inputs)}), "//x:net")


def test_mixtures_and_choices() -> None:
    """A choice, as a recipe with overrides, has the ratio that was measured."""
    result = measured("fp32", INT4)
    front = result["front"]
    assert [p["bytes"] for p in front] == sorted((p["bytes"] for p in front), reverse=True)
    assert (front[0]["bytes"], front[0]["sqnr_db"]) == (result["float"]["bytes"], None)
    assert front[-1]["bytes"] == result["all"][1]["bytes"]
    chosen = choose.choose(result, "min_sqnr_db", "25", "//x:tuned")
    assert 25 <= chosen["sqnr_db"] < 35
    assert len({p["bytes"] for p in front if p["sqnr_db"] is None or p["sqnr_db"] >= 25}) > 1
    recipe = mixed(
        made("fp32"),
        [Override(n, "//x:int4", made(INT4)) for n, number in chosen["layers"].items() if number],
        "//x:tuned",
    )
    model = spec()
    modules = {"forward": model.methods["forward"].module}
    got = eager_outputs(
        stages.transform_sources(modules, recipe, "//x:net")["forward"],
        data(model).samples[0].inputs,
    )
    expected = eager_outputs(modules["forward"], data(model).samples[0].inputs)
    assert sqnr_db(got[0], expected[0]) == pytest.approx(chosen["sqnr_db"], abs=0.01)
    again = choose.choose(result, "max_bytes", f"{chosen['bytes']}", "//x:tuned")
    assert again["layers"] == chosen["layers"]


@pytest.mark.parametrize(
    ("bound", "value", "message"),
    [
        ("max_bytes", "50 B", '"50 B", expected at least 60 bytes (60 B), the weights of'),
        ("min_sqnr_db", "90", '"90", expected at most 40.00 dB, the ratio of the most exact'),
        ("max_perplexity", "1.01x", '"1.01x", expected at least 10.5000 (1.0500x), that of'),
    ],
)
def test_impossible_bounds(bound: str, value: str, message: str) -> None:
    """The nearest bound that can be met is named."""
    points = [(100, 40.0, 10.5), (60, 20.0, 12.0)]
    front = [
        {"bytes": size, "sqnr_db": ratio, "perplexity": perplexity, "layers": {"a": n}}
        for n, (size, ratio, perplexity) in enumerate(points)
    ]
    result = {
        "front": front,
        "float": {"perplexity": 10.0},
        "text": "a.txt",
        "recipes": ["//x:a", "//x:b"],
        "layers": [{"names": ["a", "also.a"]}],
    }
    with pytest.raises(BuildError) as raised:
        choose.choose(result, bound, value, "//x:tuned")
    assert str(raised.value).startswith(f"//x:tuned: {bound}: got {message}")
    met = {"max_bytes": "70 B", "min_sqnr_db": "15", "max_perplexity": "1.2x"}[bound]
    assert choose.choose(result, bound, met, "//x:tuned")["layers"] == {"a": 1, "also.a": 1}


@pytest.mark.release
def test_the_hash_seed_changes_nothing() -> None:
    """A process with another seed measures the same."""
    script = "import json, test_sensitivity as t; print(json.dumps(t.measured('fp32', t.INT4)))"
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "77"}
    other = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, check=True
    )
    assert other.stdout.decode() == json.dumps(measured("fp32", INT4)) + "\n"
