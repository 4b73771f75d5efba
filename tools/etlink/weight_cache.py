"""Decides whether XNNPACK's weight cache may be turned on for a program.

The cache packs a weight once for all delegates and all programs of a process. It finds a packed
weight by its name: the key of the weight, for some operators with that of the bias. The packed
bytes also depend on scales, types, shapes, flags, and often on the bias (`payload.Packing`). So two
layers with equal integers and different scales or biases would get the same packed weight, and
wrong numbers. The manifest therefore says whether a program packs each name in one way only, and
gives a digest of that way: programs that are loaded together are safe where equal names have equal
digests. Keys that are names say nothing of the bytes, so the bytes are part of the digest of such a
name; and such keys with equal bytes count as one, because a file stores them once, and XNNPACK sees
addresses.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from etlink.named_data import NamedData
from etlink.payload import Packing

# How many reasons are given.
_EXAMPLES = 3


@dataclass(frozen=True)
class WeightCache:
    """The decision about XNNPACK's weight cache.

    Attributes:
      reasons: why it would give wrong numbers; empty: it is safe for this program alone.
      packed: the cache's name of a packed weight (`Packing`) to a digest of how it is packed.
        Programs that are loaded together are safe where the same name has the same digest.
      of_adapter: the same names to the keys of the adapter whose bytes are packed, sorted: another
        adapter's bytes give another digest.
    """

    reasons: tuple[str, ...] = ()
    packed: dict[str, str] = field(default_factory=dict)
    of_adapter: dict[str, tuple[str, ...]] = field(default_factory=dict)


def weight_cache(
    packings: Iterable[Packing],
    names: Mapping[str, Sequence[str]],
    by_name: Sequence[NamedData] = (),
    unread: Sequence[str] = (),
) -> WeightCache:
    """Finds out whether XNNPACK's weight cache is safe for a program.

    Args:
      packings: of the program, with the keys that it loads by.
      names: qualified names of weights by key.
      by_name: data whose keys are names: their bytes are part of how they are packed.
      unread: sha256 of payloads that cannot be read, hex.
    """
    sha256_by_name = {d.key: d.sha256 for d in by_name}

    def contents(packing: Packing) -> str:
        """All of a packing, with bytes' hashes in place of names."""
        text = json.dumps({"key": packing.weight, **json.loads(packing.recipe)}, sort_keys=True)
        return re.sub(r'"([^"]+)"', lambda m: f'"{sha256_by_name.get(m[1], m[1])}"', text)

    ways: dict[str, dict[str, Packing]] = {}
    packed: dict[str, set[str]] = {}
    of_adapter: dict[str, set[str]] = {}
    for packing in packings:
        name = packing.weight + packing.bias
        parts = {packing.weight, packing.bias, *re.findall(r'"([^"]+)"', packing.recipe)}
        # Another adapter has other bytes under the same name.
        content = sorted((key, sha256_by_name[key]) for key in parts if key in sha256_by_name)
        if content:
            of_adapter.setdefault(name, set()).update(k for k, _ in content)
        way = json.dumps([packing.weight, packing.recipe, content])
        packed.setdefault(name, set()).add(way)
        same = "".join(sha256_by_name.get(key, key) for key in (packing.weight, packing.bias))
        ways.setdefault(same, {}).setdefault(contents(packing), packing)
    reasons = [
        f"{_names(of.values(), names)} have equal bytes and are packed in {len(of)} ways "
        f"({_differing(of)}), and XNNPACK's weight cache would give all of them the first one"
        for _, of in sorted(ways.items())
        if len(of) > 1
    ][:_EXAMPLES]
    reasons += [
        f"XNNPACK's payload with sha256 {sha256} is of a form that is unknown here, so nothing "
        "says how its weights are packed"
        for sha256 in unread[:_EXAMPLES]
    ]
    digests = {
        name: hashlib.sha256("\n".join(sorted(of)).encode()).hexdigest()
        for name, of in sorted(packed.items())
    }
    keys = {name: tuple(sorted(of)) for name, of in sorted(of_adapter.items())}
    return WeightCache(tuple(reasons), digests, keys)


def _names(packings: Iterable[Packing], names: Mapping[str, Sequence[str]]) -> str:
    """Names of weights, each once."""
    keys = sorted({packing.weight for packing in packings})
    return " and ".join(dict.fromkeys(n for key in keys for n in names.get(key) or (key,)))


def _differing(recipes: Iterable[str]) -> str:
    """Names the parts in which some packings differ."""
    parsed = [json.loads(recipe) for recipe in sorted(recipes)]
    keys = sorted({k for p in parsed for k in p})
    differing = [k for k in keys if len({json.dumps(p.get(k)) for p in parsed}) > 1]
    words = {
        "weight": "different scales, types or shapes of the weight",
        "bias": "different biases",
        "input": "different quantization of the input",
        "output": "different quantization of the output",
        "readers": "different layers beside them",
    }
    return ", ".join(words.get(k, f"different {k}") for k in differing)
