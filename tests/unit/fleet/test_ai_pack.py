"""AI packs: on each device Play delivers what the app's interface would choose."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import play
import pytest
from etbuild.errors import BuildError
from etbundle.mobile import ai_pack
from etbundle.mobile.play_groups import Group, configuration, groups_of
from etbundle.variants import devices
from etbundle.variants.devices import Chip, Device, Model, Table
from etlink.json_file import encode, write_json
from etlink.manifest import File, Manifest, Program
from etlink.variants import Condition, Variant

TABLE = devices.read(Path("rules/devices.json"))
_GIB = 2**30
_CLASSES = (1, 2, 3, 4, 6, 8, 12, 16, 18, 24, 32)
_ANDROID = ("android_arm64",)


def is_one(fact: str, *texts: str) -> Condition:
    return Condition(fact=fact, any_of=texts)


def at_least(fact: str, version: str) -> Condition:
    return Condition(fact=fact, at_least=version)


def below(fact: str, version: str) -> Condition:
    return Condition(fact=fact, below=version)


def variants(**conditions: Sequence[Condition]) -> tuple[Variant, ...]:
    return tuple(Variant(program=p, conditions=tuple(c)) for p, c in conditions.items())


# What Play can tell, and what it cannot.
_TOLD = [
    at_least("ram_gb", "8"),
    at_least("ram_gb", "12"),
    below("ram_gb", "6"),
    is_one("ram_gb", "4", "8"),
    is_one("soc", "SM8650", "SM8750"),
    is_one("soc", "SM8550", "Tensor G3", "Tensor G4"),
    is_one("features", "i8mm"),
    is_one("features", "dotprod", "avx2"),
    is_one("os", "android"),
    is_one("platform", "ios_arm64"),
]
_NOT_TOLD = [at_least("os_level", "34"), at_least("vulkan", "1.1"), at_least("qnn", "2.20")]


def in_play(device: Device, model: Model) -> list[dict[str, object]]:
    """A device as Play knows it, with each name that its chip's maker has."""
    size = int(device.facts["ram_gb"][0])
    smaller = max((c for c in _CLASSES if c < size), default=0)
    chip = device.facts.get("soc", ("",))[0]
    makers = TABLE.chips[chip].play.split(", ") if chip else ["?"]
    name = model.play[0] if model.play else devices.PlayDevice(brand="?", device="?")
    return [
        {"ram": ram, "maker": maker, "model": chip, "brand": name.brand, "device": name.device}
        for maker in makers
        # What the kernel keeps for itself is between nothing and nearly all of a class.
        for ram in (smaller * _GIB + 1, round(size * _GIB * 0.93) if size > 1 else 1, size * _GIB)
        if ram > smaller * _GIB
    ]


def phones() -> list[tuple[Device, Model]]:
    by_name = {model.name: model for model in TABLE.devices}
    return [
        (device, by_name[device.name.split(", ")[0]])
        for device in devices.devices_of(TABLE)
        if device.platform == "android_arm64"
    ]


def best(choices: Sequence[Variant], device: Device, among: set[str]) -> str:
    return next(v.program for v in choices if v.program in among and v.fits(device.facts))


def check(named: Mapping[str, Sequence[Variant]]) -> None:
    """Checks that each phone, as often as Play knows it, gets the variant that is best there.

    One of which Play knows neither chip nor name may get a worse one that runs.
    """
    groups = {group.name: group for group in groups_of("//:p", named, TABLE)}
    config = play.read(configuration("//:p", list(groups.values()), TABLE))
    assert [g.attrib["name"] for g in config] == [name for name in groups if name != "other"]
    for device, model in phones():
        known = "soc" in device.facts or model.play
        for seen in in_play(device, model):
            among = set(groups[play.group_of(config, seen)].programs)
            for name, choices in named.items():
                got = best(choices, device, among)
                wanted = best(choices, device, {v.program for v in choices})
                assert got == wanted or not known, (device, seen, name, among)


def test_each_phone_gets_its_best_variant() -> None:
    """Fleets of all kinds of conditions, alone and together."""
    chance = random.Random(5)
    for _ in range(60):
        pool = _TOLD + chance.sample(_NOT_TOLD, chance.randrange(3))
        choices = {
            f"p{n}": chance.sample(pool, chance.randrange(1, 3)) for n in range(chance.randrange(4))
        }
        named = {"a": variants(**choices, last=[is_one("os", "android")])}
        if chance.random() < 0.4:
            named["b"] = variants(big=[chance.choice(_TOLD)], small=[])
        check(named)


def test_memory_is_a_class() -> None:
    """8 GB is more than 6 GiB: what phones report is less than what they are sold with."""
    choices = variants(large=[at_least("ram_gb", "8")], small=[below("ram_gb", "4")], rest=[])
    groups = groups_of("//:p", {"x": choices}, TABLE)
    assert configuration("//:p", groups, TABLE).splitlines()[1:-1] == [
        '<config:device-targeting-config xmlns:config="http://schemas.android.com/apk/config">',
        '  <config:device-group name="large">',
        f'    <config:device-selector ram-min-bytes="{6 * _GIB + 1}"/>',
        "  </config:device-group>",
        '  <config:device-group name="small">',
        f'    <config:device-selector ram-max-bytes="{3 * _GIB + 1}"/>',
        "  </config:device-group>",
    ]
    assert groups[-1] == Group("other", (), ("rest",))


def test_a_chip_has_the_names_of_its_maker() -> None:
    groups = groups_of("//:p", {"x": variants(npu=[is_one("soc", "SM8650")], rest=[])}, TABLE)
    text = configuration("//:p", groups, TABLE)
    for maker in ("QTI", "Qualcomm"):
        assert f'<config:system-on-chip manufacturer="{maker}" model="SM8650"/>' in text
    assert groups[0].programs == ("npu", "rest")


def test_a_phone_without_a_chip_is_named() -> None:
    """A phone that meets all conditions that follow from chips: Play knows its name."""
    both = [is_one("features", "dotprod"), is_one("features", "i8mm")]
    for conditions, named in ((both[:1], True), (both, False)):
        groups = groups_of("//:p", {"x": variants(p=conditions, rest=[])}, TABLE)
        text = configuration("//:p", groups, TABLE)
        assert ('<config:included-device-id brand="samsung" device="x1s"/>' in text) == named
        assert 'device="a21s"' not in text


def test_what_play_cannot_tell_goes_with_the_next() -> None:
    new = [at_least("ram_gb", "8"), at_least("os_level", "34")]
    choices = variants(new=new, big=[at_least("ram_gb", "8")], rest=[])
    groups = groups_of("//:p", {"x": choices}, TABLE)
    assert [(g.name, g.programs) for g in groups] == [
        ("new", ("big", "new", "rest")),
        ("other", ("rest",)),
    ]


def test_variants_for_others_are_no_groups() -> None:
    choices = variants(apple=[is_one("os", "ios")], here=[is_one("cpu", "arm64")])
    assert groups_of("//:p", {"x": choices}, TABLE) == [Group("other", (), ("here",))]


@pytest.mark.parametrize(
    ("conditions", "table", "sentence"),
    [
        ([at_least("ram_gb", "8")], TABLE, "no program is for all phones"),
        (
            [is_one("ram_gb", "1", "3", "6", "12", "18", "32")],
            TABLE,
            "group p: got 6 selectors, and Play takes at most 5",
        ),
        (
            [is_one("soc", "X1")],
            TABLE,
            'soc = X1: the table of devices does not say who makes "X1"',
        ),
        (
            [is_one("soc", "Y")],
            Table(devices=TABLE.devices, chips={"Y": Chip(name="?")}),
            'does not say who makes "Y"',
        ),
    ],
)
def test_refused(conditions: list[Condition], table: Table, sentence: str) -> None:
    rest = {} if "no program" in sentence else {"rest": []}
    with pytest.raises(BuildError, match=sentence):
        groups = groups_of("//:p", {"x": variants(p=conditions, **rest)}, table)
        configuration("//:p", groups, table)


def test_names_are_escaped() -> None:
    """A table that users write may have anything."""
    chips = {'<"&': Chip(play="A & B<")}
    model = Model(name="x", facts={"platform": _ANDROID, "soc": ('<"&',)})
    table = Table(devices=(model,), chips=chips)
    groups = groups_of("//:p", {"x": variants(**{"2-a": [is_one("soc", '<"&')]}, rest=[])}, table)
    [group] = play.read(configuration("//:p", groups, table))
    assert group.attrib["name"] == "group_2_a"
    assert group[0][0].attrib == {"manufacturer": "A & B<", "model": '<"&'}


def manifest() -> Manifest:
    """Two programs that share data, one that stands alone, and one that is no variant."""
    programs = {
        "a": Program(label="//:a", file="programs/a.pte", data=("data/shared.ptd",)),
        "b": Program(label="//:b", file="programs/b.pte", data=("data/shared.ptd", "data/b.ptd")),
        "c": Program(label="//:c", file="programs/c.pte"),
        "other": Program(label="//:o", file="programs/other.pte"),
    }
    paths = [path for p in programs.values() for path in (p.file, *p.data)]
    files = {path: File(size=4) for path in [*paths, "assets/words.txt"]}
    choices = variants(a=[at_least("ram_gb", "8")], b=[at_least("ram_gb", "4")], c=[])
    return Manifest(label="//:x", files=files, programs=programs, variants={"x": choices})


def test_files_of_groups() -> None:
    found = manifest()
    groups = groups_of("//:p", found.variants, TABLE)
    common = ["assets/words.txt", "manifest.json", "programs/c.pte", "programs/other.pte"]
    assert [ai_pack.files_of(group, found) for group in groups] == [
        sorted([*common, "programs/a.pte", "data/shared.ptd"]),
        sorted([*common, "programs/b.pte", "data/shared.ptd", "data/b.ptd"]),
        common,
    ]


def test_sizes(tmp_path: Path) -> None:
    """Bytes after compression count, and the largest files are named."""
    group = Group("g", (), ())
    zeros, noise = tmp_path / "zeros", tmp_path / "noise"
    zeros.write_bytes(bytes(100_000))
    noise.write_bytes(random.Random(1).randbytes(5_000))
    ai_pack.check_size("//:p", group, {"z": zeros}, 1_000)
    ai_pack.check_size("//:p", group, {"n": noise}, 5_000)
    with pytest.raises(BuildError) as caught:
        ai_pack.check_size("//:p", group, {"data/z": zeros, "data/n": noise}, 5_000)
    assert "//:p: group g: got 105,000 bytes, over 5,000 after compression" in caught.value.what
    assert "data/z 100,000, data/n 5,000" in caught.value.what


def test_a_pack_on_the_disk(tmp_path: Path) -> None:
    """Each group can be opened: its files are those of the assets, and written once."""
    found = manifest()
    assets = tmp_path / "assets"
    for path in found.files:
        (assets / path).parent.mkdir(parents=True, exist_ok=True)
        (assets / path).write_text(path, encoding="utf-8")
    write_json(assets / "manifest.json", {"format": 1, **encode(found)})
    files = [*found.files, "manifest.json"]
    words = ["--label=//:p", "--pack=pack", "--folder=et", "--devices=rules/devices.json"]
    words += [f"--manifest={assets}/manifest.json", f"--output={tmp_path}/out"]
    words += [f"--file={path}={assets / path}" for path in files]
    (tmp_path / "out").mkdir()
    assert not ai_pack.main(words)
    root = tmp_path / "out/pack/src/main/assets"
    assert sorted(p.name for p in root.iterdir()) == ["et#group_a", "et#group_b", "et#group_other"]
    for folder, expected in (("a", "a"), ("b", "b"), ("other", None)):
        top = root / f"et#group_{folder}"
        there = {p.relative_to(top).as_posix(): p for p in top.rglob("*") if p.is_file()}
        assert all(p.read_bytes() == (assets / path).read_bytes() for path, p in there.items())
        assert (f"programs/{expected}.pte" in there) == (expected is not None)
    shared = [root / f"et#group_{g}" / "data/shared.ptd" for g in "ab"]
    assert len({path.stat().st_ino for path in shared}) == 1
    assert play.read((tmp_path / "out" / ai_pack.CONFIGURATION).read_text(encoding="utf-8"))


def test_a_pack_without_variants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_json(tmp_path / "m.json", {"format": 1, "label": "//:x", "files": {}})
    words = ["--label=//:p", "--pack=p", "--folder=f", "--devices=rules/devices.json"]
    words += [f"--manifest={tmp_path}/m.json", f"--output={tmp_path}/out"]
    assert ai_pack.main(words) == 1
    assert "//:p: assets: got no variants" in capsys.readouterr().err


def test_all_pairs_of_conditions() -> None:
    """Each two variants before the last."""
    for one, other in itertools.combinations(_TOLD + _NOT_TOLD, 2):
        check({"x": variants(one=[one], other=[other], last=[])})
