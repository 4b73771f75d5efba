"""Manifests: written, read, joined, and compared. Needs no torch."""

from __future__ import annotations

import dataclasses
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from adapted import LORA, Built, build
from etbuild import BuildError
from etlink import manifest
from etlink.manifest import File, Manifest, Program
from etlink.named_data import NamedData
from etlink.payload import Packing
from etlink.weight_cache import weight_cache
from synthetic import (
    sha256,
)


@pytest.fixture
def one(tmp_path: Path) -> Built:
    """The program that is loaded."""
    return build(tmp_path / "one", "one")


def test_a_manifest_survives_its_file(tmp_path: Path, one: Built) -> None:
    manifest.write(tmp_path / "m.json", one.manifest)
    assert manifest.read(tmp_path / "m.json") == one.manifest
    raw = json.loads((tmp_path / "m.json").read_text())
    assert raw["programs"] == {
        "one": {
            "label": "//m:one",
            "file": "p.pte",
            "data": ["one.ptd", "foundation.ptd"],
            "adapter": "one.ptd",
            "interface": one.entry.interface,
            "methods": {"forward": {}},
            "weight_cache": {},
        }
    }
    assert raw["files"]["p.pte"] == {
        "label": "//m:one",
        "sha256": sha256(one.program.read_bytes()),
        "crc32": zlib.crc32(one.program.read_bytes()),
        "size": one.program.stat().st_size,
    }
    own, foundation = raw["files"]["one.ptd"], raw["files"]["foundation.ptd"]
    assert (own["label"], foundation["label"]) == ("//m:one", "//m:foundation")
    assert own["keys"] == [
        {
            "key": "lora_a",
            "sha256": sha256(LORA),
            "size": 120,
            "crc32": zlib.crc32(LORA),
            "alignment": 16,
            "by_name": True,
            "names": ["lora_a"],
            "dtype": "float32",
            "shape": [30],
            "layout": {"scalar_type": 6, "sizes": [30], "dim_order": [0]},
        }
    ]


# Sets


def file(size: int = 3, sha256: str = "a" * 64, *keys: str) -> File:
    data = (NamedData(key=key, sha256="1" * 64, size=4, crc32=0) for key in keys)
    return File(size=size, sha256=sha256, label="//m:f", keys=tuple(data))


def of(*data: str, **files: File) -> Manifest:
    """A manifest of files that have no suffix, and of a program that loads some of them."""
    name = f"loads_{'_'.join(data)}"
    programs = {name: Program(label="//m:p", file=data[0], data=data[1:])} if data else {}
    return Manifest(label="//m:m", files=files, programs=programs)


def test_a_union_has_each_file_once_with_the_keys_of_all() -> None:
    one = of("a", "f", a=file(), f=file(9, "", "x", "y"))
    two = of("b", "f", b=file(), f=file(9, "b" * 64, "y", "z"))
    union = manifest.union("//m:app", [one, two])
    assert (union.label, sorted(union.files)) == ("//m:app", ["a", "b", "f"])
    assert union.files["f"] == file(9, "b" * 64, "x", "y", "z")
    assert union.programs == one.programs | two.programs
    assert manifest.union("//m:app", [two, one, union]).files == union.files


@pytest.mark.parametrize("other", [file(4), file(3, "b" * 64)])
def test_two_files_of_one_path_are_refused(other: File) -> None:
    with pytest.raises(BuildError, match='//m:app: two files would be "a": 3 bytes .* and '):
        manifest.union("//m:app", [of(a=file()), of(a=other)])


def test_one_key_of_two_contents_is_refused() -> None:
    changed = dataclasses.replace(file(3, "", "k").keys[0], sha256="2" * 64)
    other = dataclasses.replace(file(3, ""), keys=(changed,))
    with pytest.raises(BuildError, match='two files would be "a"'):
        manifest.union("//m:app", [of(a=file(3, "", "k")), of(a=other)])


def test_two_programs_of_one_name_are_refused() -> None:
    one = of("a", a=file())
    other = dataclasses.replace(one.programs["loads_a"], label="//m:other")
    two = dataclasses.replace(one, programs={"loads_a": other})
    with pytest.raises(BuildError, match='two programs would be "loads_a": //m:p and //m:other'):
        manifest.union("//m:app", [one, two])


def test_a_difference_lists_what_has_to_be_fetched() -> None:
    before = of(same=file(), gone=file(), changed=file(), grown=file())
    after = of(same=file(), changed=file(3, "b" * 64), grown=file(4), new=file())
    changes = manifest.difference(before, after)
    assert (list(changes.files), changes.removed) == (["changed", "grown", "new"], ("gone",))
    assert changes.files["changed"] == file(3, "b" * 64)
    assert manifest.difference(after, after) == Manifest(label="//m:m", files={})


def test_moved_files_keep_their_programs() -> None:
    one = of("a", "f", a=file(), f=file())
    paths = {"a": "programs/a.pte", "f": "data/f.ptd"}
    moved = manifest.moved(one, paths, {"loads_a_f": "a"})
    assert sorted(moved.files) == ["data/f.ptd", "programs/a.pte"]
    expected = Program(label="//m:p", file="programs/a.pte", data=("data/f.ptd",))
    assert moved.programs == {"a": expected}


def test_names_of_other_repositories() -> None:
    expected = [("@@m~1.0//:net", "net"), ("//:net", "net")]
    assert manifest.unique_names(expected) == ["m_1.0_net", "root_net"]


# The weight cache


def packing(**recipe: Any) -> Packing:
    """The weight "w" with the bias "b", packed in some way."""
    return Packing("w", "b", json.dumps({"node": "fully connected", **recipe}, sort_keys=True))


@pytest.mark.parametrize(
    "packings",
    [
        [],
        [packing(weight=["qcint8", "scale1"]), packing(weight=["qcint8", "scale1"])],
        [packing(), Packing("w", "other bias", "{}")],
        [packing(), Packing("other weight", "b", "{}")],
        [packing(), Packing("w", "", "{}")],
    ],
    ids=["none", "the same", "another bias", "another weight", "no bias in the name"],
)
def test_a_safe_weight_cache(packings: list[Packing]) -> None:
    assert weight_cache(packings, {}).reasons == ()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("weight", "different scales, types or shapes of the weight"),
        ("bias", "different biases"),
        ("input", "different quantization of the input"),
        ("output", "different quantization of the output"),
        ("flags", "different flags"),
    ],
)
def test_a_weight_that_is_packed_in_two_ways(part: str, words: str) -> None:
    packings = [packing(**{part: n}) for n in (1, 2)]
    assert weight_cache(packings, {"w": ("a.weight", "b.weight")}).reasons == (
        f"a.weight and b.weight have equal bytes and are packed in 2 ways ({words}), and XNNPACK's "
        "weight cache would give all of them the first one",
    )


def test_names_that_are_equal_in_a_row() -> None:
    """The cache sees one name, wherever the weight's key ends."""
    packings = [Packing("ab", "c", "{}"), Packing("a", "bc", "{}")]
    (digest,) = weight_cache(packings, {}).packed.values()
    assert digest != weight_cache(packings[:1], {}).packed["abc"]
    assert weight_cache(packings, {}).reasons


def test_keys_of_equal_bytes_are_one_weight() -> None:
    """A file stores them once, and XNNPACK tells them by address."""
    weights = [NamedData(key=k, sha256="1" * 64, size=4, crc32=0, by_name=True) for k in "wv"]
    same = [Packing(key, "", json.dumps({"bias": [key]})) for key in "wv"]
    assert weight_cache(same, {}, weights).reasons == ()
    assert sorted(weight_cache(same, {}, weights).packed) == ["v", "w"]
    others = [Packing(key, "", json.dumps({"shape": key * 2})) for key in "wv"]
    (reason,) = weight_cache(others, {}, weights).reasons
    assert reason.startswith("v and w have equal bytes and are packed in 2 ways (different shape)")


def test_a_few_hazards_are_listed() -> None:
    packings = [Packing(f"w{n}", "", json.dumps({"weight": m})) for n in range(9) for m in (1, 2)]
    assert len(weight_cache(packings, {}).reasons) == 3


def test_what_is_packed_tells_programs_apart() -> None:
    """Equal for equal packings; the bytes count where keys are names."""
    one, same, other = (weight_cache([packing(weight=n)], {}).packed for n in (1, 1, 2))
    assert one == same != other
    assert list(one) == ["wb"]
    weights = (
        NamedData(key="w", sha256=digit * 64, size=4, crc32=0, by_name=True) for digit in "12"
    )
    by_name = [weight_cache([packing()], {}, [weight]).packed for weight in weights]
    assert by_name[0] != by_name[1] and list(by_name[0]) == list(by_name[1])
