"""The proof that each device gets a program, conditions, and tables of devices."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from etbuild.errors import BuildError
from etbundle import app
from etbundle.variants import devices, proof
from etbundle.variants.devices import Device
from etlink.manifest import File, Manifest, Program, union
from etlink.variants import Condition, Variant, numbers

_EMPTY = Manifest(label="//:x", files={})


def choice(label: str, *conditions: Condition, needs: Sequence[Condition] = ()) -> proof.Choice:
    return proof.Choice(label, conditions, tuple(needs), _EMPTY)


def device(name: str, platform: str = "android_arm64", **facts: str) -> Device:
    values = {fact: tuple(text.split()) for fact, text in facts.items()}
    return Device(name, devices.of_platform({"platform": (platform,), **values}))


def is_one(fact: str, *texts: str) -> Condition:
    return Condition(fact=fact, any_of=texts)


def at_least(fact: str, version: str) -> Condition:
    return Condition(fact=fact, at_least=version)


_FLEET = [
    device("new", soc="SM8650", ram_gb="12", features="dotprod i8mm"),
    device("old", soc="SM8450", ram_gb="8"),
    device("small", ram_gb="4"),
    device("tablet", "ios_arm64", soc="iPad16,3", ram_gb="8"),
]
_ALL = choice("//:all")
_NPU = choice("//:npu", is_one("soc", "SM8650"))


def test_each_device_gets_its_first() -> None:
    chosen = proof.prove("//:v", [_NPU, choice("//:big", at_least("ram_gb", "8")), _ALL], _FLEET)
    assert [[c.label for c in fits] for fits in chosen] == [
        ["//:npu", "//:big", "//:all"],
        ["//:big", "//:all"],
        ["//:all"],
        ["//:big", "//:all"],
    ]


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ([_NPU], ["no program is for old / small / tablet: //:npu needs soc = SM8650"]),
        (
            [choice("//:a", is_one("os", "android"))],
            ["no program is for tablet", "os = android", "platforms"],
        ),
        (
            [choice("//:a", at_least("ram_gb", "4"))],
            [
                "new / old / small and 1 more devices can have nothing to fall back to",
                "ram_gb >= 4",
            ],
        ),
        ([_ALL, _NPU], ["no device gets //:npu: all 1 that could get //:all, which is better"]),
        (
            [choice("//:a", is_one("soc", "SM9999")), _ALL],
            ["no device gets //:a: none has soc = SM9999"],
        ),
        (
            [choice("//:a", is_one("soc", "SM8450"), at_least("ram_gb", "12")), _ALL],
            ["no device gets //:a: none has soc = SM8450, ram_gb >= 12"],
        ),
        (
            [choice("//:a", needs=[is_one("os", "linux")]), _ALL],
            ["no device gets //:a: none has os = linux"],
        ),
    ],
    ids=["none", "platform", "fallback", "shadowed", "chip", "together", "payload"],
)
def test_a_fleet_that_is_not_served(choices: list[proof.Choice], words: list[str]) -> None:
    with pytest.raises(BuildError) as caught:
        proof.prove("//:v", choices, _FLEET)
    for word in words:
        assert word in str(caught.value)


def test_a_fallback_may_be_for_its_platform() -> None:
    """Not every program must run everywhere."""
    for_phones, for_tablets = is_one("os", "android"), is_one("platform", "ios_arm64")
    proof.prove("//:v", [choice("//:a", for_phones), choice("//:b", for_tablets)], _FLEET)


def test_all_small_fleets() -> None:
    """The proof is what its words say, for all lists of conditions and devices."""
    conditions = [(), (is_one("soc", "a"),), (at_least("ram_gb", "8"),), (is_one("cpu", "x86_64"),)]
    fleet = [device("a", soc="a", ram_gb="8"), device("b", ram_gb="8"), device("c", "linux_x86_64")]
    refused = 0
    for size in (1, 2, 3):
        for listed in itertools.product(conditions, repeat=size):
            choices = [choice(f"//:{n}", *each) for n, each in enumerate(listed)]
            fits = [[c for c in choices if c.fits(d)] for d in fleet]
            good = all(f and f[-1].is_fallback() for f in fits)
            good = good and {f[0].label for f in fits} == {c.label for c in choices}
            try:
                assert proof.prove("//:v", choices, fleet) == fits
                assert good
            except BuildError:
                assert not good
                refused += 1
    assert 0 < refused < 4 + 16 + 64


@pytest.mark.parametrize(
    ("condition", "values", "holds"),
    [
        (is_one("x", "a", "b"), ["b"], True),
        (is_one("x", "a"), ["c", "a"], True),
        (is_one("x", "a"), [], False),
        (is_one("x", "8"), ["8.0"], False),
        (at_least("x", "8"), ["8.0"], True),
        (at_least("x", "8"), ["12"], True),
        (at_least("x", "8.1"), ["8"], False),
        (at_least("x", "1.10"), ["1.9"], False),
        (at_least("x", "1"), ["new"], False),
        (Condition(fact="x", below="31"), ["30.9"], True),
        (Condition(fact="x", below="31"), ["31"], False),
        (Condition(fact="x", at_least="2", below="3"), ["1", "4"], False),
        (Condition(fact="x"), ["1"], False),
        (at_least("x", "new"), ["1"], False),
        (at_least("x", "1"), ["9" * 5000], False),
        (Condition(fact="x", below="new"), ["1"], False),
        (Condition(fact="x", at_least="1", below="."), ["1"], False),
    ],
    ids=str,
)
def test_conditions(condition: Condition, values: list[str], holds: bool) -> None:
    assert condition.holds({"x": values}) is holds
    assert Variant(program="p", conditions=(condition,)).fits({"x": values}) is holds


def test_versions() -> None:
    assert numbers("1.3.0") == numbers("1.3") < numbers("1.3.1") < numbers("1.10")
    assert numbers("0") == ()


def test_bytes_that_a_variant_adds() -> None:
    shared = File(size=100, label="//:weights")
    one = Manifest(label="//:a", files={"a.pte": File(size=7, label="//:a"), "w.ptd": shared})
    two = Manifest(label="//:b", files={"b.pte": File(size=9, label="//:b"), "w.ptd": shared})
    choices = [proof.Choice(m.label, (), (), m) for m in (one, two)]
    assert proof.bytes_of(choices) == [(107, 107), (109, 9)]


_GOOD: Mapping[str, Any] = {
    "sources": [{"name": "a list", "date": "2026-01-02"}],
    "chips": {"C": {"name": "Chip", "facts": {"vulkan": ["1.3"]}, "play": "QTI"}},
    "devices": [
        {
            "name": "Phone",
            "facts": {"platform": ["android_arm64"], "soc": ["C"]},
            "one_of": {"ram_gb": ["8", "12"], "os_level": ["34"]},
            "play": [{"brand": "b", "device": "d"}],
        }
    ],
}


def test_a_table(tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text(json.dumps(_GOOD))
    found = devices.devices_of(devices.read(path))
    assert [d.name for d in found] == [
        "Phone, ram_gb 8, os_level 34",
        "Phone, ram_gb 12, os_level 34",
    ]
    assert found[1].facts == {
        "os": ("android",),
        "cpu": ("arm64",),
        "vulkan": ("1.3",),
        "platform": ("android_arm64",),
        "soc": ("C",),
        "ram_gb": ("12",),
        "os_level": ("34",),
    }
    assert device("x", "ios_sim_arm64").facts["cpu"] == ("arm64",)


def _with(at: Sequence[str | int], value: object) -> dict[str, Any]:
    document: Any = json.loads(json.dumps(_GOOD))
    inner = document
    for part in at[:-1]:
        inner = inner[part]
    inner[at[-1]] = value
    return document


@pytest.mark.parametrize(
    ("document", "word"),
    [
        ([], "object"),
        ({"devices": []}, "it.devices is empty"),
        ({"devices": [{"name": "x"}]}, "facts"),
        (_with(["devices", 0, "facts", "platform"], []), "platform has no value"),
        (_with(["devices", 0, "facts", "platform"], ["a_b", "c_d"]), "2 platforms, expected one"),
        (_with(["devices", 0, "facts"], {"soc": ["C"]}), "0 platforms, expected one"),
        (_with(["devices", 0, "facts", "ram_gb"], ["8"]), "ram_gb in facts and in one_of"),
        (_with(["devices", 0, "facts", "soc"], "C"), "soc"),
        (_with(["devices", 0, "facts", "soc"], [""]), "soc has the value ''"),
        (_with(["devices", 0, "facts", "soc"], ["a\nb"]), "a\\nb"),
        (_with(["devices", 0, "one_of", "ram_gb"], []), "ram_gb has no value"),
        (_with(["devices", 0, "one_of", "os_level"], [8]), "os_level"),
        (_with(["devices", 0, "price"], 3), "price"),
        (_with(["chips", "C", "facts", "vulkan"], []), 'it.chips["C"]: vulkan has no value'),
        ({"devices": _GOOD["devices"] * 2}, "the name of an earlier device"),
        (
            _with(
                ["devices", 0, "one_of"], {f"f{n}": [str(i) for i in range(99)] for n in range(9)}
            ),
            "over 100000 devices",
        ),
    ],
    ids=str,
)
def test_malformed_tables(document: object, word: str, tmp_path: Path) -> None:
    path = tmp_path / "devices.json"
    path.write_text(json.dumps(document))
    with pytest.raises(BuildError) as caught:
        devices.read(path)
    assert str(path) in str(caught.value) and "is not a table of devices" in str(caught.value)
    assert word in str(caught.value)
    assert "docs/howto/fleet.md" in str(caught.value)


def _app(*variants: str) -> Manifest:
    files = {f"{name}.pte": File(size=1, label=name) for name in variants}
    programs = {name: Program(label=name, file=f"{name}.pte") for name in variants}
    listed = tuple(Variant(program=name) for name in variants)
    return Manifest(label="//:app", files=files, programs=programs, variants={"chat": listed})


def test_apps_of_one_package() -> None:
    """Each has the variants of its platform; the package has all in one order."""
    both = union("//:apk", [_app("npu", "gpu", "cpu"), _app("gpu", "cpu"), _app("cpu")])
    assert [variant.program for variant in both.variants["chat"]] == ["npu", "gpu", "cpu"]
    assert both.variants == union("//:apk", [_app("cpu"), _app("npu", "gpu", "cpu")]).variants
    with pytest.raises(BuildError, match="two different lists of variants"):
        union("//:apk", [_app("npu", "cpu"), _app("cpu", "npu")])


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    table = tmp_path / "chat.variants.json"
    table.write_text(json.dumps({"variants": [{"program": "npu", "conditions": []}]}))
    programs = dataclasses.replace(_app("npu", "gpu"), variants={})
    named = app.add_variants("//:app", programs, "chat", table)
    assert named.variants == {"chat": (Variant(program="npu"),)}
    with pytest.raises(BuildError, match='two programs would be "gpu"'):
        app.add_variants("//:app", programs, "gpu", table)
    other = tmp_path / "other.variants.json"
    other.write_text(json.dumps({"variants": [{"program": "dsp", "conditions": []}]}))
    assert not app.add_variants("//:app", programs, "chat", other).variants, "none is in the app"
    other.write_text("{}")
    with pytest.raises(BuildError, match=r"other\.variants\.json"):
        app.add_variants("//:app", programs, "chat", other)
