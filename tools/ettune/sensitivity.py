"""Measures what each layer's quantization costs: signal-to-noise ratio of outputs, or perplexity.

The eager model runs with layers that are replaced by quantized ones; nothing is lowered. For each
layer, each block and each recipe two runs are compared with the float model: one with only this
layer quantized, and one with all but this layer. `replay.py` begins each of them at the layer.

Then programs that mix the recipes are measured: the front. It begins with the best recipe for each
layer, and goes on with the change that adds the least noise for the bytes that it saves. The noise
of layers is added up as if it were independent, which only orders the changes: each program of the
front is measured itself. `choose.py` takes one of them, so another budget measures nothing again.

All numbers of the JSON object depend on the request alone, for one kind of processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError, ModelSpec
from etlower import calibration, layers
from etlower.flags import Request
from etlower.layers import Call, Layer
from etlower.outputs import sqnr_db

from ettune.choices import Choice
from ettune.replay import Recording, Replay, Sample

# Programs of the front that are measured, beside its ends.
_FRONT = 64


@dataclass(frozen=True)
class Data:
    """The inputs that a model is measured on.

    Attributes:
      samples: inputs of its methods.
      calibration: inputs that static recipes are calibrated with; empty: the samples.
      text: name of the text that the samples are pieces of; empty: there is none.
    """

    samples: Sequence[Sample]
    text: str = ""
    calibration: Sequence[Sample] = ()

    @property
    def tokens(self) -> int:
        """Number of tokens that are predicted."""
        return sum(len(sample.next_tokens) for sample in self.samples)


def inputs_of(spec: ModelSpec, request: Request) -> Data:
    """The inputs of a request's file, or else those that calibrate, or else those of the model.

    Raises:
      BuildError: a file does not fit the model.
    """
    calibrating = calibration_of(spec, request)
    if request.inputs is not None:
        by_method = calibration.read(request.inputs, spec.methods, request.label, "data")
        samples = _samples(by_method)
    elif request.calibration is not None or spec.calibration is not None:
        samples = calibrating
    else:
        samples = _samples({n: [m.example_inputs, *m.test_inputs] for n, m in spec.methods.items()})
    if not samples:
        raise BuildError(
            f"{request.label}: there are no inputs to measure with.", "Give the model some."
        )
    return Data(samples, calibration=calibrating)


def calibration_of(spec: ModelSpec, request: Request) -> list[Sample]:
    """The inputs that a program of the request would be calibrated with.

    Raises:
      BuildError: the calibration file does not fit the model.
    """
    by_method: dict[str, Any] = {n: [m.example_inputs] for n, m in spec.methods.items()}
    if request.calibration is not None:
        by_method |= calibration.read(request.calibration, spec.methods, request.label)
    elif spec.calibration is not None:
        by_method |= calibration.of_model(spec, request.model_label)
    return _samples({name: by_method[name] for name in spec.methods})


def _samples(by_method: Mapping[str, Iterable[Any]]) -> list[Sample]:
    return [
        Sample(name, tuple(inputs)) for name, many in sorted(by_method.items()) for inputs in many
    ]


def text_of(spec: ModelSpec, tokens: Sequence[int], name: str, label: str) -> Data:
    """A text in pieces that the model reads at once.

    Args:
      spec: the model.
      tokens: of the text.
      name: of the text.
      label: of the target, for messages.

    Raises:
      BuildError: it is no language model, or the text has fewer than two tokens.
    """
    constants = spec.constant_methods
    if "forward" not in spec.methods or not {"get_max_seq_len", "get_eos_ids"} <= set(constants):
        raise BuildError(
            f"{label}: the model does not read several tokens at once: it has the methods "
            f"{', '.join(sorted({*spec.methods, *constants}))}, expected a language model with "
            '"forward" and "get_max_seq_len".',
            "Measure outputs instead of a text.",
        )
    if len(tokens) < 2:
        raise BuildError(f"{label}: {name}: got {len(tokens)} tokens, expected at least 2.")
    most = int(constants["get_max_seq_len"])
    samples = []
    for start in range(0, len(tokens) - 1, most):
        piece = tokens[start : start + most + 1]
        if len(piece) > 1:
            inputs = (torch.tensor([list(piece[:-1])]), torch.tensor([0]))
            samples.append(Sample("forward", inputs, tuple(piece[1:])))
    return Data(samples, name)


def measure(
    spec: ModelSpec,
    choices: Sequence[Choice],
    data: Data,
    label: str,
) -> dict[str, Any]:
    """Measures the layers, the blocks and the front of a model.

    Args:
      spec: the model.
      choices: the recipes; layers that none of them quantizes are left out.
      data: what to run it on.
      label: of the target, for messages.

    Returns:
      `recipes`, `text`, `tokens`, `samples`; `float`, `all`, `layers`, `blocks` and `front` as
      docs/reference/tuning.md lists them. A ratio that is null has no noise.

    Raises:
      BuildError: nothing is quantized, or a method is exported already.
    """
    return _Model(spec, choices, data, label).measured()


class _Model:
    """A model whose layers are replaced and measured."""

    def __init__(
        self,
        spec: ModelSpec,
        choices: Sequence[Choice],
        data: Data,
        label: str,
    ) -> None:
        self._choices, self._data, self._label = choices, data, label
        self._modules = layers.copies(spec, label)
        self._bytes = layers.total_bytes(self._modules)
        found = layers.find(self._modules)
        self._replay = Replay(self._modules, data.samples)
        calls: dict[int, list[Call]] = {id(layer.module): [] for layer in found}
        if data.calibration:
            Replay(self._modules, data.calibration).record(_collector(calls))
        self._float = self._replay.record(None if data.calibration else _collector(calls))
        self._check_logits()
        for choice in choices:
            layers.add_variants(found, spec, choice.recipe, calls, label)
        self._layers = [layer for layer in found if any(layer.variants)]
        if not self._layers:
            raise BuildError(
                f"{label}: {' and '.join(c.label for c in choices)} quantizes no layer of the "
                "model.",
                "Give a recipe that quantizes.",
            )

    def _check_logits(self) -> None:
        for sample, outputs in zip(self._data.samples, self._float.outputs, strict=True):
            if not sample.next_tokens:
                continue
            rows = outputs[0].numel() // outputs[0].shape[-1]
            if rows != len(sample.next_tokens):
                raise BuildError(
                    f"{self._label}: the model returns logits of {rows} tokens, expected those of "
                    f"all {len(sample.next_tokens)} that it reads.",
                    "Set debug.generate_full_logits, or measure outputs instead of a text.",
                )

    def measured(self) -> dict[str, Any]:
        """All of the JSON object."""
        layers_of = {layer.name: [layer] for layer in self._layers}
        blocks = _blocks(self._layers)
        rows = {name: self._row(layer.names, [layer]) for name, (layer,) in layers_of.items()}
        rows |= {name: self._row([name], members) for name, members in blocks.items()}
        whole = []
        for number, choice in enumerate(self._choices):
            everything = self._record(number)
            whole.append({"recipe": choice.label, **self._result(everything.outputs, number)})
            for row in rows.values():
                self._measure_row(row, number, everything)
        self._put({})
        return {
            "recipes": [choice.label for choice in self._choices],
            "text": self._data.text,
            "tokens": self._data.tokens,
            "samples": len(self._data.samples),
            "float": {"bytes": self._bytes, "perplexity": self._perplexity(self._float.outputs)},
            "all": whole,
            "layers": [_without_layers(rows[name]) for name in layers_of],
            "blocks": [_without_layers(rows[name]) for name in blocks],
            "front": self._front({name: rows[name] for name in layers_of}),
        }

    def _row(self, names: Sequence[str], members: Sequence[Layer]) -> dict[str, Any]:
        return {
            "names": list(names),
            "kind": type(members[0].module).__name__ if len(members) == 1 else "block",
            "layers": [layer.name for layer in members],
            "members": members,
            "bytes": sum(layer.bytes for layer in members),
            "recipes": [],
        }

    def _record(self, number: int) -> Recording:
        self._put({layer.name: number for layer in self._layers})
        return self._replay.record()

    def _put(self, numbers: Mapping[str, int]) -> None:
        for layer in self._layers:
            layer.put(numbers.get(layer.name))

    def _measure_row(self, row: dict[str, Any], number: int, everything: Recording) -> None:
        members: Sequence[Layer] = row["members"]
        own = [layer for layer in members if layer.variants[number]]
        size = sum(layer.variant_bytes[number] for layer in members)
        entry: dict[str, Any] = {"recipe": self._choices[number].label, "bytes": size}
        if own:
            self._put({layer.name: number for layer in own})
            outputs = self._replay.run(self._float, [layer.module for layer in own])
            entry["only"] = self._compared(outputs)
            rest = {layer.name: number for layer in self._layers if layer not in own}
            self._put(rest)
            outputs = self._replay.run(everything, [layer.variants[number] for layer in own])
            entry["all_but"] = self._compared(outputs)
        row["recipes"].append(entry)

    def _compared(self, outputs: Sequence[Sequence[Any]]) -> dict[str, Any]:
        return {
            "sqnr_db": _ratio(outputs, self._float.outputs, self._data.samples),
            "perplexity": self._perplexity(outputs),
        }

    def _perplexity(self, outputs: Sequence[Sequence[Any]]) -> float | None:
        if not self._data.tokens:
            return None
        loss = 0.0
        for sample, (logits, *_) in zip(self._data.samples, outputs, strict=True):
            rows = logits.reshape(-1, logits.shape[-1]).float()
            target = torch.tensor(sample.next_tokens)
            loss += float(torch.nn.functional.cross_entropy(rows, target, reduction="sum"))
        return round(math.exp(min(loss / self._data.tokens, 700.0)), 4)

    def _result(self, outputs: Sequence[Sequence[Any]], number: int) -> dict[str, Any]:
        numbers = {layer.name: number for layer in self._layers}
        return {"bytes": self._size(numbers), **self._compared(outputs)}

    def _size(self, numbers: Mapping[str, int]) -> int:
        return self._bytes + sum(
            layer.variant_bytes[numbers[layer.name]] - layer.bytes for layer in self._layers
        )

    def _front(self, rows: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Programs that mix the recipes, from the largest to the smallest."""
        path = greedy({name: row["recipes"] for name, row in rows.items()})
        first = [layer.put(None) for layer in self._layers]
        points = []
        for numbers in _spread(path, _FRONT):
            self._put(numbers)
            outputs = self._replay.run(self._float, first)
            points.append(
                {
                    "bytes": self._size(numbers),
                    **self._compared(outputs),
                    "layers": {name: numbers[name] for name in sorted(numbers)},
                }
            )
        self._put({})
        return points


def _collector(calls: Mapping[int, list[Call]]) -> Callable[[Any, tuple[Any, ...], Any], None]:
    """Keeps the inputs of layers, where they are tensors."""

    def see(module: Any, args: tuple[Any, ...], kwargs: Any) -> None:
        kept = calls.get(id(module))
        if kept is not None and not kwargs and all(isinstance(a, torch.Tensor) for a in args):
            kept.append(tuple(a.detach().clone() for a in args))

    return see


def _without_layers(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key != "members"}


def _blocks(found: Iterable[Layer]) -> dict[str, list[Layer]]:
    """Layers by the element of a list that they are in ("layers.3"), where it has several."""
    blocks: dict[str, list[Layer]] = {}
    for layer in found:
        for name in _numbered(layer.name):
            blocks.setdefault(name, []).append(layer)
    names = {layer.name for layers_of in blocks.values() for layer in layers_of}
    return {n: ls for n, ls in blocks.items() if len(ls) > 1 and n not in names}


def _numbered(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: n + 1]) for n in range(len(parts) - 1) if parts[n].isdecimal()]


def noise(entry: Mapping[str, Any]) -> float:
    """Noise of a layer's quantization in proportion to the signal."""
    if "only" not in entry or entry["only"]["sqnr_db"] is None:
        return 0.0
    return 10 ** (-entry["only"]["sqnr_db"] / 10)


def greedy(layers_of: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, int]]:
    """Mixtures of recipes from the most exact to the smallest.

    Args:
      layers_of: by layer: for each recipe its `bytes` and `only`.

    Returns:
      For each step the number of each layer's recipe. One layer changes at a step: the one whose
      change adds the least noise for a byte that it saves.
    """
    options = {
        name: [(noise(entry), entry["bytes"], number) for number, entry in enumerate(entries)]
        for name, entries in layers_of.items()
    }
    current = {name: min(entries) for name, entries in options.items()}
    path = [{name: entry[2] for name, entry in current.items()}]
    while True:
        steps = [
            ((entry[0] - now[0]) / (now[1] - entry[1]), name, entry)
            for name, now in current.items()
            for entry in options[name]
            if entry[1] < now[1]
        ]
        if not steps:
            return path
        _, name, entry = min(steps)
        current[name] = entry
        path.append({name: entry[2] for name, entry in current.items()})


def _spread(path: Sequence[dict[str, int]], most: int) -> list[dict[str, int]]:
    """At most that many elements, the first and the last among them."""
    if len(path) <= most:
        return list(path)
    return [path[round(n * (len(path) - 1) / (most - 1))] for n in range(most)]


def _ratio(
    got: Sequence[Sequence[Any]], expected: Sequence[Sequence[Any]], samples: Sequence[Sample]
) -> float | None:
    """The least ratio of all outputs in dB, each over all samples; None: no output has noise."""
    parts: dict[tuple[str, int], list[tuple[torch.Tensor, torch.Tensor]]] = {}
    for sample, ours, theirs in zip(samples, got, expected, strict=True):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            if isinstance(other, torch.Tensor) and other.is_floating_point():
                parts.setdefault((sample.method, number), []).append(
                    (one.reshape(-1), other.reshape(-1))
                )
    least = min((_of_pairs(pairs) for pairs in parts.values()), default=math.inf)
    # Outputs that are not finite have no ratio: the worst there is.
    return None if least == math.inf else round(max(least, -300.0), 2)


def _of_pairs(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> float:
    """The ratio of tensors and what was expected, in dB."""
    noise = sum(_energy(got - expected) for got, expected in pairs)
    signal = sum(_energy(expected) for _, expected in pairs)
    if noise > 0 and signal > 0 and math.isfinite(noise + signal):
        return 10 * math.log10(signal / noise)
    # Zeros and numbers that are not finite, which the slower comparison knows.
    return sqnr_db(torch.cat([got for got, _ in pairs]), torch.cat([e for _, e in pairs]))


def _energy(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64)) ** 2
