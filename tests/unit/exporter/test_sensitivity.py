"""Sensitivities of layers: against real programs, with texts, and what cannot be measured."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import xnnpack_recipes
from etbuild import BuildError, Method, ModelSpec, Options, RecipeContext
from etexport import choose, layers, sensitivity, stages
from etexport.exported import eager_outputs
from etexport.outputs import leaves, sqnr_db
from etexport.overrides import Override, mixed
from etexport.progress import Progress
from etexport.replay import Replay, Sample
from etexport.sensitivity import Choice, Data
from etfast import path
from etlink import runtime
from executorch.export import ExportRecipe

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
    (got,) = runtime.call(file, None, "forward", leaves(inputs))
    (expected,) = eager_outputs(model.methods["forward"].module, inputs)
    return sqnr_db(got, expected)


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
