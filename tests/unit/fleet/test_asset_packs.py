"""Asset packs for Apple's Background Assets: each variant's are complete, and no file is in two."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from etbundle.mobile import asset_packs
from etlink import manifest as manifests
from etlink.json_file import encode, write_json
from etlink.manifest import File, Manifest, Program
from etlink.variants import Condition, Variant

_BUILT = Path("tests/unit/fleet/asset_packs")


def described(path: Path, root: Path) -> dict[str, Any]:
    """Reads a manifest of ba-package and checks it against Apple's template."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert found.keys() == {"assetPackID", "downloadPolicy", "fileSelectors", "platforms"}
    assert found["assetPackID"] == path.stem
    assert found["downloadPolicy"] == {"onDemand": {}}
    assert set(found["platforms"]) <= {"iOS", "macOS", "tvOS", "visionOS"}
    assert found["fileSelectors"]
    for selector in found["fileSelectors"]:
        assert selector.keys() == {"file"}
        assert not Path(selector["file"]).is_absolute()
        assert (root / selector["file"]).is_file()
    return found


def files_of(root: Path) -> dict[str, set[str]]:
    """Identifier to the files of each pack in a folder."""
    packs = [described(path, root) for path in root.glob("*.json")]
    return {p["assetPackID"]: {s["file"] for s in p["fileSelectors"]} for p in packs}


def manifest() -> Manifest:
    """Two variants that share data, one for Android, and a program that is none."""
    programs = {
        "a": Program(label="//:a", file="programs/a.pte", data=("data/shared.ptd", "data/all.ptd")),
        "b": Program(label="//:b", file="programs/b.pte", data=("data/shared.ptd", "data/b.ptd")),
        "droid": Program(label="//:d", file="programs/droid.pte", data=("data/droid.ptd",)),
        "plain": Program(label="//:p", file="programs/plain.pte", data=("data/all.ptd",)),
    }
    paths = [path for p in programs.values() for path in (p.file, *p.data)]
    files = {path: File(size=4) for path in [*paths, "assets/words.txt"]}
    android = Condition(fact="os", any_of=("android",))
    memory = Condition(fact="ram_gb", at_least="8")
    variants = (
        Variant(program="droid", conditions=(android,)),
        Variant(program="a", conditions=(memory,)),
        Variant(program="b"),
    )
    return Manifest(label="//:x", files=files, programs=programs, variants={"x": variants})


def test_packs() -> None:
    assert asset_packs.packs_of("com.x", manifest()) == {
        "com.x.common": ["assets/words.txt", "data/all.ptd", "manifest.json", "programs/plain.pte"],
        "com.x.data.b.ptd": ["data/b.ptd"],
        "com.x.data.shared.ptd": ["data/shared.ptd"],
        "com.x.program.a": ["programs/a.pte"],
        "com.x.program.b": ["programs/b.pte"],
    }


def test_built_packs() -> None:
    """A device gets all files of its variant, as the rule's text says, and they are the assets'."""
    packs = files_of(_BUILT)
    for one, other in itertools.combinations(packs.values(), 2):
        assert not one & other
    found = manifests.read(_BUILT / "executorch/manifest.json")
    [choices] = found.variants.values()
    assert len(choices) == 4
    for variant in choices:
        program = found.programs[variant.program]
        there = packs["com.example.common"] | packs[f"com.example.program.{variant.program}"]
        for path in program.data:
            there |= packs.get(f"com.example.data.{Path(path).name}", set())
        assert {f"executorch/{path}" for path in (program.file, *program.data)} <= there
    every = {path for paths in packs.values() for path in paths}
    for path in every:
        name = Path(path).relative_to("executorch")
        assert (_BUILT / path).read_bytes() == (
            Path("tests/unit/fleet/files/assets") / name
        ).read_bytes()


def test_a_name_that_is_no_identifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = Program(label="//:a", file="programs/a+b.pte")
    variants = {"x": (Variant(program="a+b"),)}
    files = {program.file: File(size=1)}
    found = Manifest(label="//:x", files=files, programs={"a+b": program}, variants=variants)
    write_json(tmp_path / "m.json", {"format": 1, **encode(found)})
    words = ["--label=//:p", "--prefix=com.x", "--folder=f", f"--manifest={tmp_path}/m.json"]
    words += [f"--file=manifest.json={tmp_path}/m.json", f"--output={tmp_path}/out"]
    (tmp_path / "out").mkdir()
    assert asset_packs.main(words) == 1
    assert 'would be "com.x.program.a+b", expected letters' in capsys.readouterr().err
