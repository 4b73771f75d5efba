"""Time and bytes of a method, by module of the model.

The time of a kernel belongs to the module that called it. That of a delegate is split between the
modules in it: by the delegate's own events where they fit the operators that it was made of, which
XNNPACK's do, and what these leave by the operators' FLOPs. Nothing is counted twice or lost: the
modules' own times, "unknown_ms" and "outside_ms" add up to the method's time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etlink.amounts import human_bytes
from etlink.json_file import FormError, decode, read_object
from etlink.payload import BACKEND as XNNPACK

from etcli.measure.events import Delegate, Timeline
from etcli.report.modules import above

# XNNPACK's name of an operator, where it is not ATen's.
_XNNPACK_NAMES = {
    "addmm": "fully connected",
    "avg_pool2d": "average pooling",
    "bmm": "batch matrix multiply",
    "cat": "concatenate",
    "ceil": "ceiling",
    "constant_pad_nd": "constant pad",
    "cos": "cosine",
    "div": "divide",
    "hardtanh": "clamp",
    "leaky_relu": "leakyrelu",
    "linear": "fully connected",
    "max_pool2d": "max pooling",
    "mm": "fully connected",
    "mul": "multiply",
    "neg": "negate",
    "permute": "transpose",
    "quantize_affine": "convert",
    "quantize_per_tensor": "convert",
    "quantize_per_token": "convert",
    "relu": "clamp",
    "rsqrt": "reciprocal square root",
    "sin": "sine",
    "sqrt": "square root",
    "sub": "subtract",
    "upsample_bilinear2d": "resize bilinear",
    "view": "static reshape",
}


# What people see for the module without a name, for parts of a module, and for what is in none.
WHOLE, OWN = "the model", "its own operators"
UNKNOWN, OUTSIDE = "operators of no known module", "outside of operators"
_AGAIN = "Build the output group report by this version of the rules."


@dataclass(frozen=True)
class _Calls:
    kernels: dict[str, str]
    delegates: dict[str, tuple[tuple[Any, ...], ...]]


@dataclass(frozen=True)
class _Modules:
    calls: dict[str, _Calls]
    bytes: dict[str, int]
    unnamed_bytes: int
    payload_bytes: int


@dataclass(frozen=True)
class _Report:
    modules: _Modules


@dataclass
class _Part:
    """A delegated operator's share of the time; milliseconds.

    Attributes:
      module: qualified name of the module.
      operator: "aten.linear.default".
      flops: of one call.
      measured: by an event of its own.
      split: from what several operators took.
    """

    module: str
    operator: str
    flops: int
    measured: float = 0.0
    split: float = 0.0


class _Sums:
    """Milliseconds and bytes by module, in the order in which the modules are called."""

    def __init__(self) -> None:
        self.modules: dict[str, dict[str, float]] = {}

    def add(self, module: str, **amounts: float) -> None:
        own = self._own(module)
        for name, amount in amounts.items():
            own[f"own_{name}"] = own.get(f"own_{name}", 0) + amount
        for name in above(module):
            whole = self._own(name)
            for key, amount in amounts.items():
                whole[key] = whole.get(key, 0) + amount

    def _own(self, module: str) -> dict[str, float]:
        return self.modules.setdefault(module, {})


def read(report: Path) -> dict[str, Any]:
    """Reads what a program's report says of its modules.

    Raises:
      BuildError: it is not such a file.
    """
    raw = read_object(report, "is not the report of a program", _AGAIN)
    try:
        return dataclasses.asdict(decode(_Report, raw, extra=True).modules)
    except FormError as error:
        raise BuildError(f"{report} is not the report of a program: {error}.", _AGAIN) from error


def of_method(timeline: Timeline, method: str, program: Mapping[str, Any]) -> dict[str, Any]:
    """Time and bytes of each module.

    Args:
      timeline: events of the method.
      method: its name.
      program: as `read` returns it.

    Returns:
      "tree", the modules, those around others before them, in the order of their calls: `name` (the
      model itself: ""), `ms` and `bytes` of it and of the modules in it, `own_ms`, `own_bytes`, and
      `split_ms`: how much of `ms` is a share of what a delegate took for several operators;
      "delegates", by backend `ms` and how much of it its own events `measured_ms`;
      "unknown_ms" of operators in branches and loops, whose module is unknown; "outside_ms" outside
      of operators; "unnamed_bytes" and "payload_bytes" that belong to no module.
    """
    calls = program["calls"].get(method, {"kernels": {}, "delegates": {}})
    sums = _Sums()
    sums.add("")
    unknown = 0.0
    backends: dict[str, dict[str, float]] = {}
    timed: list[tuple[int, str, float, float]] = []
    for instruction, _, ms in timeline.kernels:
        module = calls["kernels"].get(str(instruction))
        if module is None:
            unknown += ms
        else:
            timed.append((instruction, module, ms, 0.0))
    for instruction, delegate in timeline.delegates.items():
        nodes = calls["delegates"].get(str(instruction))
        if not nodes:
            unknown += delegate.ms
            continue
        parts = _split(delegate, [_Part(*node) for node in nodes])
        timed += [(instruction, p.module, p.measured + p.split, p.split) for p in parts]
        backend = backends.setdefault(delegate.backend, {"ms": 0.0, "measured_ms": 0.0})
        backend["ms"] += delegate.ms
        backend["measured_ms"] += sum(part.measured for part in parts)
    for _, module, ms, split in sorted(timed, key=lambda call: call[0]):
        sums.add(module, ms=ms, split_ms=split)
    for module, size in sorted(program["bytes"].items()):
        sums.add(module, bytes=size)
    operators = sum(ms for _, _, ms in timeline.kernels)
    operators += sum(delegate.ms for delegate in timeline.delegates.values())
    keys = ("ms", "own_ms", "split_ms", "bytes", "own_bytes")
    return {
        "tree": [
            {"name": name, **{key: sums.modules[name].get(key, 0) for key in keys}}
            for name in _nested(sums.modules)
        ],
        "delegates": [{"backend": name, **backends[name]} for name in sorted(backends)],
        "unknown_ms": unknown,
        "outside_ms": max(0.0, timeline.ms - operators),
        "unnamed_bytes": program["unnamed_bytes"],
        "payload_bytes": program["payload_bytes"],
    }


def notes(modules: Mapping[str, Any]) -> list[str]:
    """Explains the split of delegates' time, and what belongs to no module; a sentence each."""
    texts = []
    for delegate in modules["delegates"]:
        start = f"{delegate['backend']}: {delegate['ms']:.3f} ms,"
        if delegate["measured_ms"]:
            texts.append(
                f"{start} {delegate['measured_ms']:.3f} of it measured by its own events of "
                "operators, the rest split by FLOPs."
            )
        else:
            texts.append(f"{start} split by FLOPs.")
    if modules["unknown_ms"]:
        texts.append(
            f"{modules['unknown_ms']:.3f} ms: operators whose module is unknown, as in branches "
            "and loops."
        )
    texts.append(f"{modules['outside_ms']:.3f} ms: outside of operators.")
    payloads, unnamed = (human_bytes(modules[f"{k}_bytes"]) for k in ("payload", "unnamed"))
    texts.append(f"Bytes are those of weights; payloads of delegates have {payloads} beside them.")
    if modules["unnamed_bytes"]:
        texts.append(f"{unnamed} are of weights whose name is unknown.")
    return texts


def _split(delegate: Delegate, parts: list[_Part]) -> list[_Part]:
    """Distributes a delegate's time over its operators."""
    # XNNPACK counts microseconds, so that its events may add up to more than the call.
    sum_of_events = sum(ms for _, ms in delegate.events)
    scale = min(1.0, delegate.ms / sum_of_events) if sum_of_events else 0.0
    left = delegate.ms
    for events, same in _pairs(delegate, parts):
        taken = scale * sum(events)
        left -= taken
        if len(events) == len(same):
            for part, ms in zip(same, events, strict=True):
                part.measured += scale * ms
        else:
            _spread(taken, same)
    _spread(max(0.0, left), parts)
    return parts


def _pairs(delegate: Delegate, parts: Sequence[_Part]) -> Iterable[tuple[list[float], list[_Part]]]:
    """Times of a delegate's events, and the operators of the same kind, both in order."""
    if delegate.backend != XNNPACK:
        return
    times: dict[str, list[float]] = {}
    for name, ms in delegate.events:
        # "Convolution (NHWC, F32) IGEMM #2"
        times.setdefault(name.partition(" (")[0].lower(), []).append(ms)
    same: dict[str, list[_Part]] = {}
    for part in parts:
        same.setdefault(_xnnpack_name(part.operator), []).append(part)
    for kind in sorted(times.keys() & same.keys()):
        yield times[kind], same[kind]


def _xnnpack_name(operator: str) -> str:
    """Returns XNNPACK's name of an operator: "aten.linear.default" is "fully connected"."""
    name = operator.split(".")[1].strip("_").removesuffix("_copy")
    return _XNNPACK_NAMES.get(name, name)


def _spread(ms: float, parts: Sequence[_Part]) -> None:
    """Adds shares of a time by FLOPs, or equal ones where there are none."""
    whole = sum(part.flops for part in parts)
    for part in parts:
        part.split += ms * part.flops / whole if whole else ms / len(parts)


def _nested(modules: Iterable[str]) -> list[str]:
    """Names with those of inner modules right behind the outer one's, else in their order."""
    first: dict[str, int] = {}
    for name in modules:
        for part in above(name):
            first.setdefault(part, len(first))
    return sorted(first, key=lambda name: [first[part] for part in above(name)])


def compare(modules: Mapping[str, Any], before: Mapping[str, tuple[float, float]]) -> None:
    """Adds `before_ms` and `before_own_ms` to the modules that a baseline has, too.

    Args:
      modules: as `of_method` returns it.
      before: the baseline's `ms` and `own_ms` by module.
    """
    for node in modules["tree"]:
        if node["name"] in before:
            node["before_ms"], node["before_own_ms"] = before[node["name"]]


def slower(modules: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The modules whose own operators take longer than in the baseline, most milliseconds first."""
    known = [node for node in modules["tree"] if "before_own_ms" in node]
    longer = [node for node in known if node["own_ms"] > node["before_own_ms"]]
    return sorted(longer, key=lambda node: node["before_own_ms"] - node["own_ms"])
