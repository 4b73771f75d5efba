"""Checks before a program is loaded: every file, every byte. Needs no torch."""

from __future__ import annotations

import dataclasses
import json
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etlink import data_index, link, manifest, ptd
from etlink.json_file import write_json
from etlink.named_data import NamedData
from etlink.payload import Packing
from etlink.weight_cache import weight_cache
from synthetic import SyntheticProgram, link_with, named, program, sha256, shared_file

BASE = bytes(range(200)) * 5
LORA = b"rank" * 30


@dataclasses.dataclass
class Built:
    """A linked program: its manifest and its files, own data first."""

    manifest: dict[str, Any]
    program: Path
    data: Path
    shared: Path

    def check(self, *files: Path, program: Path | None = None) -> list[Path]:
        """The data files to load, out of some."""
        return manifest.check(self.manifest, program or self.program, files)

    def message(self, *files: Path, program: Path | None = None) -> str:
        """The error of some files that don't fit."""
        with pytest.raises(BuildError) as caught:
            self.check(*files, program=program)
        return caught.value.what


def build(folder: Path, name: str, lora: bytes = LORA, base: bytes = BASE) -> Built:
    """A program //m:<name> with a shared base and an adapter of its own."""
    folder.mkdir(exist_ok=True)
    shared_path = folder / "foundation.ptd"
    source = program(folder / f"base_of_{name}", "//m:base", {"embedding": base})
    index = shared_file(shared_path, "//m:foundation", source)
    weights = {"embedding": base, "lora_a": lora}
    lowered = program(folder / f"lowered_{name}", f"//m:{name}", weights)
    options = {"separate": True, "adapter_data": "by_name"}
    linked, path, data = link_with(lowered, folder / name, index, **options)
    # The files of a target have its name.
    data.with_name("p.index.json").rename(data.with_name(f"{name}.index.json"))
    for entry in linked.manifest["data"]:
        entry["file"] = entry["file"].replace("p.ptd", f"{name}.ptd")
    return Built(linked.manifest, path, data.rename(data.with_name(f"{name}.ptd")), shared_path)


@pytest.fixture
def one(tmp_path: Path) -> Built:
    """The program that is loaded."""
    return build(tmp_path / "one", "one")


def copied(path: Path, folder: Path, change: Callable[[bytes], bytes] = bytes) -> Path:
    """A changed copy of a file, with its name."""
    folder.mkdir(exist_ok=True)
    (folder / path.name).write_bytes(change(path.read_bytes()))
    return folder / path.name


def test_a_manifest_survives_its_file(tmp_path: Path, one: Built) -> None:
    write_json(tmp_path / "m.json", one.manifest)
    assert manifest.read(tmp_path / "m.json") == one.manifest
    raw = json.loads((tmp_path / "m.json").read_text())
    assert raw["program"] == {
        "file": "p.pte",
        "sha256": sha256(one.program.read_bytes()),
        "crc32": zlib.crc32(one.program.read_bytes()),
        "size": one.program.stat().st_size,
    }
    own, foundation = raw["data"]
    assert (own["kind"], foundation["kind"]) == ("adapter", "shared")
    assert own["keys"] == {
        "lora_a": {
            "sha256": sha256(LORA),
            "size": 120,
            "crc32": zlib.crc32(LORA),
            "by_name": True,
            "dtype": "float32",
            "shape": [30],
            "scalar_type": 6,
        }
    }
    assert raw["weight_cache"] == {"safe": True, "reasons": [], "packed": {}}


def test_all_files_in_any_order(one: Built) -> None:
    expected = [one.data, one.shared]
    assert one.check(one.data, one.shared) == expected
    assert one.check(one.shared, one.data) == expected


def test_a_program_without_data_files(tmp_path: Path) -> None:
    linked, path, _ = link_with(SyntheticProgram().lower(tmp_path / "l"), tmp_path / "out")
    assert manifest.check(linked.manifest, path, []) == []


def test_a_missing_file_is_named(one: Built) -> None:
    label = 'the data file "foundation.ptd" (//m:foundation)'
    assert one.message(one.data) == f"//m:one: {label} is missing."
    assert one.message() == '//m:one: the data file "one.ptd" (//m:one) is missing.'
    gone = one.shared.with_name("foundation.ptd")
    gone.unlink()
    assert one.message(one.data, gone) == f"{gone} is missing."


def test_a_missing_program_is_named(tmp_path: Path, one: Built) -> None:
    message = one.message(one.data, one.shared, program=tmp_path / "gone.pte")
    assert message == (
        f"//m:one: {tmp_path / 'gone.pte'} is not the program of its manifest: got no file, "
        f"expected {one.program.stat().st_size} bytes, sha256 {one.manifest['program']['sha256']}."
    )


@pytest.mark.parametrize("position", [60, 200, -1])
def test_a_flipped_bit_of_the_program(tmp_path: Path, one: Built, position: int) -> None:
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[position] ^= 4
        return bytes(changed)

    message = one.message(one.data, one.shared, program=copied(one.program, tmp_path / "x", flip))
    assert f"is not the program of its manifest: got {one.program.stat().st_size} by" in message
    assert message.endswith(f"sha256 {one.manifest['program']['sha256']}.")


def test_a_truncated_program(tmp_path: Path, one: Built) -> None:
    cut = copied(one.program, tmp_path / "x", lambda data: data[:-4])
    size = one.program.stat().st_size
    assert f"got {size - 4} bytes, expected {size} bytes" in one.message(program=cut)


def test_every_flipped_bit_of_the_data_is_found(tmp_path: Path, one: Built) -> None:
    start = ptd.read(one.shared)["embedding"][0].offset
    for position in range(0, len(BASE), 37):
        changed = bytearray(one.shared.read_bytes())
        changed[start + position] ^= 1 << position % 8
        path = copied(one.shared, tmp_path / "x", lambda _, changed=changed: bytes(changed))
        message = one.message(one.data, path)
        assert message.startswith(
            f'//m:one: {path}: "embedding" has other bytes than the program was built with: got '
            f"{len(BASE)} bytes, sha256 "
        )
        assert message.endswith(f"expected {len(BASE)} bytes, sha256 {sha256(BASE)}.")


def test_truncated_data(tmp_path: Path, one: Built) -> None:
    cut = copied(one.shared, tmp_path / "x", lambda data: data[:-1])
    assert f"{cut} is truncated: got {one.shared.stat().st_size - 1}" in one.message(one.data, cut)


def test_swapped_files(tmp_path: Path, one: Built) -> None:
    (tmp_path / "x").mkdir()
    own, foundation = tmp_path / "x" / "one.ptd", tmp_path / "x" / "foundation.ptd"
    shutil.copy(one.shared, own)
    shutil.copy(one.data, foundation)
    # Names say least.
    assert one.check(own, foundation) == [foundation, own]


def renamed(built: Built, folder: Path, *files: tuple[Path, int]) -> list[Path]:
    """Copies of files that all are called "task.ptd", with what the manifest then says."""
    result = []
    for number, (path, entry) in enumerate(files):
        target = folder / str(number) / "task.ptd"
        target.parent.mkdir(parents=True)
        shutil.copy(path, target)
        index = path.with_suffix(".index.json")
        if index.exists():
            shutil.copy(index, target.with_suffix(".index.json"))
        built.manifest["data"][entry]["file"] = "task.ptd"
        result.append(target)
    return result


def test_two_files_of_one_name_in_any_order(tmp_path: Path, one: Built) -> None:
    own, foundation = renamed(one, tmp_path / "x", (one.data, 0), (one.shared, 1))
    assert one.check(own, foundation) == [own, foundation]
    assert one.check(foundation, own) == [own, foundation]


def test_another_adapter_of_the_same_name(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    renamed(one, tmp_path / "x", (one.data, 0))
    (adapter,) = renamed(one, tmp_path / "y", (other.data, 0))
    assert one.check(adapter, one.shared) == [adapter, one.shared]
    # Its own index says what it should hold.
    adapter.write_bytes(one.data.read_bytes())
    assert '"lora_a" has other bytes than the program was built with' in one.message(
        adapter, one.shared
    )


def test_a_file_of_other_weights(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", base=BASE[::-1])
    message = one.message(one.data, other.shared)
    assert f'{other.shared}: "embedding" has other bytes than the program was built' in message


def test_a_file_that_is_no_data_file(tmp_path: Path, one: Built) -> None:
    foreign = copied(one.shared, tmp_path / "x", lambda _: b"a text, no weights" * 9)
    assert "is not an ExecuTorch data file: bytes 4 to 8 are b'xt, '" in one.message(
        one.data, foreign
    )


def test_renamed_files_are_found_by_their_keys(tmp_path: Path, one: Built) -> None:
    renamed = shutil.copy(one.shared, tmp_path / "weights-v2.ptd")
    assert one.check(one.data, renamed) == [one.data, renamed]


def test_files_that_nobody_asks_for_are_left_out(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    extra = tmp_path / "extra.ptd"
    shutil.copy(other.shared, extra)
    assert one.check(extra, one.shared, one.data) == [one.data, one.shared]


# Adapters


def test_an_adapter_of_the_same_interface_fits(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    assert other.program.read_bytes() == one.program.read_bytes()
    assert other.manifest["interface"] == one.manifest["interface"]
    assert one.check(other.data, one.shared) == [other.data, one.shared]


def test_an_adapter_without_an_index_is_refused(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    (other.data.parent / "other.index.json").unlink()
    with pytest.raises(BuildError) as caught:
        one.check(other.data, one.shared)
    assert caught.value.what == (
        f"//m:one: the adapter {other.data} has no index beside it (other.index.json), so nothing "
        "says that it fits."
    )
    assert caught.value.hint == "Copy the index that was built with it."


def test_a_damaged_adapter_is_found_by_its_index(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    shutil.copy(one.data, other.data)
    message = one.message(other.data, one.shared)
    assert f'{other.data}: "lora_a" has other bytes than the program was built with' in message
    assert message.endswith(f"expected 120 bytes, sha256 {sha256(LORA[::-1])}.")


def test_an_adapter_of_another_rank_is_refused(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[:60])
    with pytest.raises(BuildError) as caught:
        one.check(other.data, one.shared)
    assert caught.value.what == (
        f'//m:one: the adapter {other.data} (//m:other) does not fit: "lora_a" is float32 [15], '
        "expected float32 [30] (another rank or base)."
    )
    assert caught.value.hint.endswith("and with the same rank.")


def test_an_adapter_of_another_base_is_refused(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", base=BASE[::-1])
    message = one.message(other.data, one.shared)
    assert "its names and shapes are the same, but its program differs in base weights" in message


def test_adapters_of_programs_that_are_too_large_to_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_HASHED", 0)
    names = {"one": {}, "other": {"lora": LORA[::-1]}, "foreign": {"base": BASE[::-1]}}
    one, other, foreign = (build(tmp_path / n, n, **given) for n, given in names.items())
    assert one.manifest["program"]["sha256"] == ""
    assert one.check(other.data, one.shared) == [other.data, one.shared]
    assert "does not fit" in one.message(foreign.data, one.shared)
    # A data file that is shared has no interface: it never replaces an adapter.
    plain = program(tmp_path / "plain", "//m:plain", {"lora_a": LORA[::-1]})
    shared_file(tmp_path / "plain.ptd", "//m:plain_data", plain)
    assert "does not fit" in one.message(tmp_path / "plain.ptd", one.shared)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["lora_b"], 'it has no "lora_a"'),
        (["lora_a", "lora_b"], 'it has "lora_b", which the program does not take'),
    ],
)
def test_an_adapter_of_other_names(
    tmp_path: Path, one: Built, names: list[str], message: str
) -> None:
    entry = data_index.read_index(one.data.with_name("one.index.json")).entries[0]
    entries = tuple(dataclasses.replace(entry, key=name) for name in sorted(names))
    index = data_index.DataIndex("//m:other", "other.ptd", 1, entries, "another interface")
    data_index.write_index(tmp_path / "other.index.json", index)
    adapter = Path(shutil.copy(one.data, tmp_path / "other.ptd"))
    assert f"(//m:other) does not fit: {message}." in one.message(adapter, one.shared)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a manifest of a program: "),
        ("[]", "is not a manifest of a program: "),
        ("{}", "got format null, expected 1."),
        ('{"format": 7}', "got format 7, expected 1."),
    ],
)
def test_damaged_manifests_are_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(BuildError) as caught:
        manifest.read(tmp_path / "m.json")
    assert message in caught.value.what and str(tmp_path / "m.json") in caught.value.what
    with pytest.raises(BuildError, match="is not a manifest of a program"):
        manifest.read(tmp_path / "gone.json")


@pytest.mark.parametrize("name", ["", ".", "..", "../a.ptd", "/a", "a\\b", "a\0b", "a\nb"])
def test_a_data_file_lies_beside_its_program(tmp_path: Path, name: str) -> None:
    entry = {"file": name, "label": "//a:b"}
    (tmp_path / "m.json").write_text(json.dumps({"format": manifest.FORMAT, "data": [entry]}))
    with pytest.raises(BuildError) as caught:
        manifest.read(tmp_path / "m.json")
    assert "it.data[0].file is" in caught.value.what
    assert "expected the name of a file" in caught.value.what


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


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    """Its bytes are right; the runtime would see another tensor."""
    one = program(tmp_path / "one", "//m:one", {"w": BASE})
    linked, path, data = link_with(one, tmp_path / "out", separate=True)
    [(key, (piece, layout))] = ptd.read(data).items()
    other = dataclasses.replace(layout, sizes=(1, *layout.sizes), dim_order=(0, 1))
    with open(tmp_path / "p.ptd", "wb") as out:
        ptd.write(out, [named(key, piece, 16, other)])
    assert manifest.check(linked.manifest, path, [data]) == [data]
    with pytest.raises(BuildError, match='the tensor "w" has another type or shape'):
        manifest.check(linked.manifest, path, [tmp_path / "p.ptd"])
