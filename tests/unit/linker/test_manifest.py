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
from etlink import link, manifest, ptd
from etlink.check import check
from etlink.manifest import File, Manifest, Program
from etlink.named_data import NamedData
from etlink.payload import Packing
from etlink.weight_cache import weight_cache
from synthetic import (
    SyntheticProgram,
    link_with,
    named,
    program,
    renamed,
    sha256,
    shared_file,
)

BASE = bytes(range(200)) * 5
LORA = b"rank" * 30


@dataclasses.dataclass
class Built:
    """A linked program: its manifest and its files, own data first."""

    manifest: Manifest
    program: Path
    data: Path
    shared: Path

    @property
    def entry(self) -> Program:
        """The program in the manifest."""
        (program,) = self.manifest.programs.values()
        return program

    @property
    def sha256(self) -> str:
        """Of the program, as the manifest has it."""
        return self.manifest.files["p.pte"].sha256

    def check(self, *files: Path, program: Path | None = None) -> list[Path]:
        """The data files to load, out of some."""
        (name,) = self.manifest.programs
        return check(self.manifest, name, program or self.program, files)

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
    own, data = renamed(linked, data, name)
    return Built(own, path, data, shared_path)


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


def test_all_files_in_any_order(one: Built) -> None:
    expected = [one.data, one.shared]
    assert one.check(one.data, one.shared) == expected
    assert one.check(one.shared, one.data) == expected


def test_a_program_without_data_files(tmp_path: Path) -> None:
    linked, path, _ = link_with(SyntheticProgram().lower(tmp_path / "l"), tmp_path / "out")
    assert check(linked.manifest, "p", path, []) == []


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
        f"expected {one.program.stat().st_size} bytes, sha256 {one.sha256}."
    )


@pytest.mark.parametrize("position", [60, 200, -1])
def test_a_flipped_bit_of_the_program(tmp_path: Path, one: Built, position: int) -> None:
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[position] ^= 4
        return bytes(changed)

    message = one.message(one.data, one.shared, program=copied(one.program, tmp_path / "x", flip))
    assert f"is not the program of its manifest: got {one.program.stat().st_size} by" in message
    assert message.endswith(f"sha256 {one.sha256}.")


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


def all_called_task(built: Built, folder: Path, *files: Path) -> list[Path]:
    """Copies of files that all are called "task.ptd", with what the manifest then says."""
    result, paths = [], {path: path for path in built.manifest.files}
    for number, path in enumerate(files):
        target = folder / str(number) / "task.ptd"
        target.parent.mkdir(parents=True)
        shutil.copy(path, target)
        if manifest.beside(path).exists():
            shutil.copy(manifest.beside(path), manifest.beside(target))
        if path.name in paths:
            paths[path.name] = f"{number}/task.ptd"
        result.append(target)
    built.manifest = manifest.moved(built.manifest, paths, {"one": "one"})
    return result


def test_two_files_of_one_name_in_any_order(tmp_path: Path, one: Built) -> None:
    own, foundation = all_called_task(one, tmp_path / "x", one.data, one.shared)
    assert one.check(own, foundation) == [own, foundation]
    assert one.check(foundation, own) == [own, foundation]


def test_another_adapter_of_the_same_name(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    all_called_task(one, tmp_path / "x", one.data)
    (adapter,) = all_called_task(one, tmp_path / "y", other.data)
    assert one.check(adapter, one.shared) == [adapter, one.shared]
    # Its own manifest says what it should hold.
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
    assert other.entry.interface == one.entry.interface
    assert one.check(other.data, one.shared) == [other.data, one.shared]


def test_an_adapter_without_a_manifest_is_refused(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    manifest.beside(other.data).unlink()
    with pytest.raises(BuildError) as caught:
        one.check(other.data, one.shared)
    assert caught.value.what == (
        f"//m:one: {other.data} has no adapter's manifest beside it (other.manifest.json), so "
        "nothing says that it fits."
    )
    assert caught.value.hint == "Copy the manifest that was built with it."


def test_a_damaged_adapter_is_found_by_its_manifest(tmp_path: Path, one: Built) -> None:
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
    assert one.sha256 == ""
    assert one.check(other.data, one.shared) == [other.data, one.shared]
    assert "does not fit" in one.message(foreign.data, one.shared)
    # A data file that is shared has no interface: it never replaces an adapter.
    plain = program(tmp_path / "plain", "//m:plain", {"lora_a": LORA[::-1]})
    shared_file(tmp_path / "plain.ptd", "//m:plain_data", plain)
    assert "no adapter's manifest" in one.message(tmp_path / "plain.ptd", one.shared)


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
    (entry,) = one.manifest.files["one.ptd"].keys
    keys = tuple(dataclasses.replace(entry, key=name) for name in sorted(names))
    adapter = Path(shutil.copy(one.data, tmp_path / "other.ptd"))
    other = Manifest(
        label="//m:other",
        files={
            "other.pte": File(size=1),
            "other.ptd": File(size=1, label="//m:other", keys=keys),
        },
        programs={
            "other": Program(
                label="//m:other",
                file="other.pte",
                data=("other.ptd",),
                adapter="other.ptd",
                interface="another interface",
            )
        },
    )
    manifest.write(manifest.beside(adapter), other)
    assert f"(//m:other) does not fit: {message}." in one.message(adapter, one.shared)


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


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    """Its bytes are right; the runtime would see another tensor."""
    one = program(tmp_path / "one", "//m:one", {"w": BASE})
    linked, path, data = link_with(one, tmp_path / "out", separate=True)
    [(key, (piece, layout))] = ptd.read(data).items()
    other = dataclasses.replace(layout, sizes=(1, *layout.sizes), dim_order=(0, 1))
    with open(tmp_path / "p.ptd", "wb") as out:
        ptd.write(out, [named(key, piece, 16, other)])
    assert check(linked.manifest, "p", path, [data]) == [data]
    with pytest.raises(BuildError, match='the tensor "w" has another type or shape'):
        check(linked.manifest, "p", path, [tmp_path / "p.ptd"])
