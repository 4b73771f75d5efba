"""Checks of a program's files by the C interface: every file, every byte. Needs no torch."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from adapted import BASE, LORA, Built, build
from etbuild import BuildError
from etlink import link, manifest, ptd
from etlink.manifest import File, Manifest, Program
from runner import runtime
from synthetic import (
    SyntheticProgram,
    link_with,
    named,
    program,
    shared_file,
)


def check(built: Built, *files: Path, program: Path | None = None) -> None:
    """Checks the program with some data files."""
    path = built.program.parent / "check.manifest.json"
    manifest.write(path, built.manifest)
    runtime.verify(program or built.program, path, files)


def error_of(built: Built, *files: Path, program: Path | None = None) -> str:
    """Returns the error of files that don't fit."""
    with pytest.raises(BuildError) as caught:
        check(built, *files, program=program)
    return caught.value.what


@pytest.fixture
def one(tmp_path: Path) -> Built:
    """The program that is checked."""
    return build(tmp_path / "one", "one")


def copied(path: Path, folder: Path, change: Callable[[bytes], bytes] = bytes) -> Path:
    """A changed copy of a file, with its name."""
    folder.mkdir(exist_ok=True)
    (folder / path.name).write_bytes(change(path.read_bytes()))
    return folder / path.name


def test_all_files_in_any_order(one: Built) -> None:
    check(one, one.data, one.shared)
    check(one, one.shared, one.data)


def test_a_program_without_data_files(tmp_path: Path) -> None:
    linked, path, _ = link_with(SyntheticProgram().lower(tmp_path / "l"), tmp_path / "out")
    check(Built(linked.manifest, path, path, path))


def test_a_missing_file_is_named(one: Built) -> None:
    missing = f"{one.program.parent / 'foundation.ptd'} is missing: //m:one needs the data of //m:f"
    assert error_of(one, one.data).startswith(missing)
    gone = one.shared.with_name("gone.ptd")
    assert str(gone) in error_of(one, one.data, gone)


def test_a_missing_program_is_named(tmp_path: Path, one: Built) -> None:
    gone = tmp_path / "gone.pte"
    assert str(gone) in error_of(one, one.data, one.shared, program=gone)


@pytest.mark.parametrize("position", [60, 200, -1])
def test_a_flipped_bit_of_the_program(tmp_path: Path, one: Built, position: int) -> None:
    def flip(data: bytes) -> bytes:
        changed = bytearray(data)
        changed[position] ^= 4
        return bytes(changed)

    error = error_of(one, one.data, one.shared, program=copied(one.program, tmp_path / "x", flip))
    assert "p.pte has other bytes than those in " in error


def test_a_truncated_program(tmp_path: Path, one: Built) -> None:
    cut = copied(one.program, tmp_path / "x", lambda data: data[:-4])
    size = one.program.stat().st_size
    assert f"has {size - 4} bytes, expected {size} (" in error_of(one, program=cut)


def test_every_flipped_bit_of_the_data_is_found(tmp_path: Path, one: Built) -> None:
    start = ptd.read(one.shared)["embedding"][0].offset
    for position in range(0, len(BASE), 37):
        changed = bytearray(one.shared.read_bytes())
        changed[start + position] ^= 1 << position % 8
        path = copied(one.shared, tmp_path / "x", lambda _, changed=changed: bytes(changed))
        error = error_of(one, one.data, path)
        assert f"{path} is damaged, or not the data that //m:one was built with: its key" in error
        assert 'key "embedding" has other bytes than when it was built' in error


def test_truncated_data(tmp_path: Path, one: Built) -> None:
    cut = copied(one.shared, tmp_path / "x", lambda data: data[:-1])
    assert f"{cut} is truncated" in error_of(one, one.data, cut)


def test_swapped_files(tmp_path: Path, one: Built) -> None:
    (tmp_path / "x").mkdir()
    own, foundation = tmp_path / "x" / "one.ptd", tmp_path / "x" / "foundation.ptd"
    shutil.copy(one.shared, own)
    shutil.copy(one.data, foundation)
    # Names say least.
    check(one, own, foundation)


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
    check(one, own, foundation)
    check(one, foundation, own)


def test_another_adapter_of_the_same_name(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    all_called_task(one, tmp_path / "x", one.data)
    (adapter,) = all_called_task(one, tmp_path / "y", other.data)
    check(one, adapter, one.shared)
    # Its own manifest says what it should hold.
    adapter.write_bytes(one.data.read_bytes())
    assert 'its key "lora_a" has other bytes' in error_of(one, adapter, one.shared)


def test_a_file_of_other_weights(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", base=BASE[::-1])
    error = error_of(one, one.data, other.shared)
    assert error.startswith(f"{other.shared} is damaged, or not the data that //m:one was built")


def test_a_file_that_is_no_data_file(tmp_path: Path, one: Built) -> None:
    foreign = copied(one.shared, tmp_path / "x", lambda _: b"a text, no weights" * 9)
    assert f"{foreign} is not an ExecuTorch data file" in error_of(one, one.data, foreign)


def test_renamed_files_are_found_by_their_keys(tmp_path: Path, one: Built) -> None:
    check(one, one.data, Path(shutil.copy(one.shared, tmp_path / "weights-v2.ptd")))


def test_a_file_that_nobody_asks_for_is_refused(tmp_path: Path, one: Built) -> None:
    nobodys = program(tmp_path / "x", "//m:x", {"x": BASE})
    extra = tmp_path / "extra.ptd"
    shared_file(extra, "//m:extra", nobodys)
    error = error_of(one, extra, one.shared, one.data)
    assert f"{extra} is not a data file of //m:one (one.ptd, foundation.ptd)" in error


def test_a_tensor_of_another_shape_is_refused(tmp_path: Path) -> None:
    """Its bytes are right; the runtime would see another tensor."""
    source = program(tmp_path / "one", "//m:one", {"w": BASE})
    linked, path, data = link_with(source, tmp_path / "out", separate=True)
    [(key, (piece, layout))] = ptd.read(data).items()
    other = dataclasses.replace(layout, sizes=(1, *layout.sizes), dim_order=(0, 1))
    reshaped = tmp_path / "p.ptd"
    with open(reshaped, "wb") as out:
        ptd.write(out, [named(key, piece, 16, other)])
    built = Built(linked.manifest, path, data, data)
    check(built, data)
    assert (
        'its key "w" is a tensor of type 6 [1, 250] with dimensions [0, 1], expected a tensor of '
        "type 6 [250] with dimensions [0]"
    ) in error_of(built, reshaped)


# Adapters


def test_an_adapter_of_the_same_interface_fits(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    assert other.program.read_bytes() == one.program.read_bytes()
    check(one, other.data, one.shared)


def test_an_adapter_without_a_manifest_is_refused(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    manifest.beside(other.data).unlink()
    error = error_of(one, other.data, one.shared)
    assert f"{other.data} is not the adapter that //m:one was built with" in error
    assert f"another adapter needs its manifest, {manifest.beside(other.data)}" in error


def test_a_damaged_adapter_is_found_by_its_manifest(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[::-1])
    shutil.copy(one.data, other.data)
    error = error_of(one, other.data, one.shared)
    assert f"{other.data} is damaged, or not the adapter of " in error
    assert 'its key "lora_a" has other bytes than when it was built' in error


def test_an_adapter_of_another_rank_is_refused(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", lora=LORA[:60])
    assert (
        f'{other.data} does not fit //m:one: its key "lora_a" has 60 bytes, expected 120 (another '
        "rank or base)"
    ) in error_of(one, other.data, one.shared)


def test_an_adapter_of_another_base_is_refused(tmp_path: Path, one: Built) -> None:
    other = build(tmp_path / "other", "other", base=BASE[::-1])
    assert "its program has other base weights" in error_of(one, other.data, one.shared)


def test_adapters_of_programs_that_are_too_large_to_hash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_HASHED", 0)
    names = {"one": {}, "other": {"lora": LORA[::-1]}, "foreign": {"base": BASE[::-1]}}
    one, other, foreign = (build(tmp_path / n, n, **given) for n, given in names.items())
    assert one.manifest.files["p.pte"].sha256 == ""
    check(one, other.data, one.shared)
    assert "does not fit" in error_of(one, foreign.data, one.shared)
    # A data file that is shared has no interface: it never replaces an adapter.
    plain = program(tmp_path / "plain", "//m:plain", {"lora_a": LORA[::-1]})
    shared_file(tmp_path / "plain.ptd", "//m:plain_data", plain)
    assert "another adapter needs its manifest" in error_of(one, tmp_path / "plain.ptd", one.shared)


@pytest.mark.parametrize("key", ["lora_b", "lora_a.x"])
def test_an_adapter_of_other_names(tmp_path: Path, one: Built, key: str) -> None:
    (entry,) = one.manifest.files["one.ptd"].keys
    keys = (dataclasses.replace(entry, key=key),)
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
    assert 'does not fit //m:one: it has no key "lora_a"' in error_of(one, adapter, one.shared)
