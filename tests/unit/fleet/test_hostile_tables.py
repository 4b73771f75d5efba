"""Tables of devices that are malformed in any way: refused with a sentence, or as good as any."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import play
import pytest
from etbuild.errors import BuildError
from etbundle.mobile.play_groups import configuration, groups_of
from etbundle.variants import devices
from etlink.variants import Condition, Variant

_WHOLE = json.loads(Path("rules/devices.json").read_text(encoding="utf-8"))
# A phone with a chip, one without that Play knows by name, one of Apple's, a computer.
_NAMES = ("Google Pixel 9", "Samsung Galaxy S20 (4G/5G)", "Apple iPhone 15", "Linux on arm64")
_TABLE = {
    "sources": _WHOLE["sources"][:1],
    "chips": {name: _WHOLE["chips"][name] for name in ("SM8650", "Tensor G4")},
    "devices": [device for device in _WHOLE["devices"] if device["name"] in _NAMES],
}
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 1.5, 10**30, [], {}, [[]], [1], ["x"], {"x": []}, "", " "),
    *("\0", "\u2028", "\ud800", 'a"<&>', "x" * 5000, "1..2", "android_arm64", [""], ["9" * 5000]),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each container in a value, with each key of it."""
    if not isinstance(value, (dict, list)):
        return []
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    return [(value, key) for key in keys] + [p for key in keys for p in places(value[key])]


def mutated(chance: random.Random) -> Any:
    table = copy.deepcopy(_TABLE)
    for _ in range(chance.randrange(1, 4)):
        container, key = chance.choice(places(table) or [(table, "devices")])
        action = chance.randrange(4)
        if action == 0 and isinstance(container, dict):
            container.pop(key, None)
        elif action == 1 and isinstance(container, dict):
            container[chance.choice(["x", "", "platform", "soc", "\x1b"])] = container.get(key)
        elif action == 2 and isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        else:
            container[key] = copy.deepcopy(chance.choice(_VALUES))
    return table


def test_mutated_tables(tmp_path: Path) -> None:
    """Nothing but a BuildError, and what is read makes devices and XML that can be read."""
    chance = random.Random(7)
    path = tmp_path / "devices.json"
    conditions = [
        Condition(fact="features", any_of=("i8mm", "dotprod")),
        Condition(fact="soc", any_of=("SM8650", "Tensor G4")),
        Condition(fact="ram_gb", at_least="6"),
    ]
    variants = [Variant(program=f"p{n}", conditions=(c,)) for n, c in enumerate(conditions)]
    variants.append(Variant(program="rest"))
    read = 0
    for _ in range(600):
        path.write_text(json.dumps(mutated(chance)), encoding="utf-8")
        try:
            table = devices.read(path)
        except BuildError as error:
            assert error.what.startswith(str(path))
            assert error.what.isprintable()
            continue
        read += 1
        for device in devices.devices_of(table):
            assert device.platform
            assert all(condition.holds(device.facts) in (True, False) for condition in conditions)
        try:
            groups = groups_of("//:p", {"x": variants}, table)
            play.read(configuration("//:p", groups, table))
        except BuildError as error:
            assert error.what.startswith("//:p: ")
    assert 20 < read < 580


@pytest.mark.parametrize("text", ["", "[]", "{", '{"devices": ' + "[" * 100_000, "\ufeff{}", "NaN"])
def test_other_files(text: str, tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BuildError, match="is not a table of devices"):
        devices.read(path)
