"""Whether XNNPACK's weight cache may be turned on for a program.

The cache packs a weight once for all delegates and all programs of a process. It finds a packed
weight by the keys of weight and bias alone, although the packed bytes also depend on scales, types,
shapes and flags (`payload.Packing`). So two layers with equal integers and different scales would
get the same packed weight, and wrong numbers. The manifest therefore says whether a program packs
each pair of keys in one way only, and gives a digest of that way: programs that are loaded together
are safe where equal pairs of keys have equal digests. Keys that are names say nothing of the bytes,
so the bytes are part of the digest of such a pair.
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
    """Whether XNNPACK's weight cache may be turned on.

    Attributes:
      reasons: why it would give wrong numbers; empty: it is safe for this program alone.
      packed: the cache's name of a packed weight (the keys of weight and bias, joined) to a digest
        of how it is packed. Programs that are loaded together are safe where the same name has the
        same digest.
      of_adapter: the same names to the keys of the adapter whose bytes are packed, sorted: another
        adapter's bytes give another digest.
    """

    reasons: tuple[str, ...]
    packed: Mapping[str, str]
    of_adapter: Mapping[str, Sequence[str]] = field(default_factory=dict)


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
    recipes: dict[tuple[str, str], set[str]] = {}
    of_adapter: dict[str, set[str]] = {}
    for packing in packings:
        parts = {packing.weight, packing.bias, *re.findall(r'"([^"]+)"', packing.recipe)}
        # Another adapter has other bytes under the same name.
        content = sorted((key, sha256_by_name[key]) for key in parts if key in sha256_by_name)
        if content:
            of_adapter.setdefault(packing.weight + packing.bias, set()).update(
                k for k, _ in content
            )
        recipe = json.dumps([packing.recipe, content]) if content else packing.recipe
        recipes.setdefault((packing.weight, packing.bias), set()).add(recipe)
    reasons = [
        f"{' and '.join(names.get(weight) or (weight,))} have equal bytes and are packed in "
        f"{len(ways)} ways ({_differing(ways)}), and XNNPACK's weight cache would give all of "
        "them the first one"
        for (weight, _), ways in sorted(recipes.items())
        if len(ways) > 1
    ][:_EXAMPLES]
    reasons += [
        f"XNNPACK's payload with sha256 {sha256} is of a form that is unknown here, so nothing "
        "says how its weights are packed"
        for sha256 in unread[:_EXAMPLES]
    ]
    packed = {
        weight + bias: hashlib.sha256("\n".join(sorted(ways)).encode()).hexdigest()
        for (weight, bias), ways in sorted(recipes.items())
    }
    keys = {name: tuple(sorted(of)) for name, of in sorted(of_adapter.items())}
    return WeightCache(tuple(reasons), packed, keys)


def _differing(recipes: set[str]) -> str:
    """Which parts of some packings differ."""
    loaded = [json.loads(r) for r in sorted(recipes)]
    parsed = [r if isinstance(r, dict) else json.loads(r[0]) for r in loaded]
    keys = sorted({k for p in parsed for k in p})
    differing = [k for k in keys if len({json.dumps(p.get(k)) for p in parsed}) > 1]
    words = {
        "weight": "different scales, types or shapes of the weight",
        "bias": "different scales of the bias",
        "input": "different quantization of the input",
        "output": "different quantization of the output",
    }
    return ", ".join(words.get(k, f"different {k}") for k in differing)
