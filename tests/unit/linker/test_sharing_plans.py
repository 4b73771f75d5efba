"""What stays out of a program, what stays in, and what is refused. Needs no torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import pte, schema, size
from etlink.amounts import amount, bytes_of
from etlink.data import is_stable
from etlink.lowered import Lowered
from etlink.merge import merge
from etlink.shared import DataIndex
from made_up import contents, link_with, program, sha256, shared_file

WQ, WK, LORA = bytes(range(256)) * 8, b"k" * 1024, b"lora" * 16
EMBEDDING, ZERO = b"e" * 512, bytes(64)


@pytest.fixture
def base(tmp_path: Path) -> Lowered:
    """A portable embedding, two delegated weights, and a zero bias."""
    return program(
        tmp_path / "base", "//m:base", {"embedding": EMBEDDING}, {"wq": WQ, "wk": WK, "bias": ZERO}
    )


@pytest.fixture
def foundation(base: Lowered, tmp_path: Path) -> DataIndex:
    """What the base shares."""
    return shared_file(tmp_path / "foundation.ptd", "//m:foundation", base)


@pytest.fixture
def task(tmp_path: Path) -> Lowered:
    """The base and one weight more; a constant that equals the zero bias."""
    return program(
        tmp_path / "task",
        "//m:task",
        {"embedding": EMBEDDING, "zeros": ZERO},
        {"wk": WK, "wq": WQ, "lora": LORA},
    )


def test_what_is_shared_is_in_no_other_file(
    task: Lowered, foundation: DataIndex, tmp_path: Path
) -> None:
    linked, path, data = link_with(task, tmp_path / "out", foundation, separate=True)
    assert contents(data) == {"zeros": ZERO, sha256(LORA): LORA}
    for weight in (WQ, WK, LORA, EMBEDDING):
        assert weight not in path.read_bytes()
    assert [s["label"] for s in linked.shared] == ["//m:foundation"]
    assert linked.shared[0]["keys"] == 3
    assert linked.shared[0]["bytes"] == len(WQ) + len(WK) + len(EMBEDDING)
    tensor = pte.read(path).program.executionPlan[0].values[0].val
    assert tensor.extraTensorInfo.fullyQualifiedName == b"embedding"
    assert tensor.extraTensorInfo.location == schema.program_class("TensorDataLocation").EXTERNAL


def test_what_is_not_shared_stays_embedded(
    task: Lowered, foundation: DataIndex, tmp_path: Path
) -> None:
    linked, path, _ = link_with(task, tmp_path / "out", foundation)
    assert linked.embedded == tuple(sorted(["zeros", sha256(LORA)]))
    assert LORA in path.read_bytes() and WQ not in path.read_bytes()
    reasons = {u["name"]: u["reason"] for u in linked.unshared}
    assert (
        reasons
        == {
            "lora": "no shared file has a weight of this name",
            "zeros": "//m:foundation has these bytes under the key of another backend "
            f'("{sha256(ZERO)}"); make it from a lowering of this one, too',
        }
        or reasons["lora"] == "no shared file has a weight of this name"
    )
    [entry] = linked.manifest["data"]
    assert (entry["file"], entry["kind"]) == ("foundation.ptd", "shared")
    assert sorted(entry["keys"]) == sorted(["embedding", sha256(WQ), sha256(WK)])


def test_one_name_with_other_bytes_is_an_error(foundation: DataIndex, tmp_path: Path) -> None:
    other = program(tmp_path / "other", "//m:other", {"embedding": b"o" * 512}, {"wq": WQ})
    with pytest.raises(BuildError) as caught:
        link_with(other, tmp_path / "out", foundation)
    assert caught.value.what == (
        '//m:other: "embedding" has other bytes in its shared data: //m:other has sha256 '
        f"{sha256(b'o' * 512)} (float32 [128], 512 bytes), //m:foundation has sha256 "
        f"{sha256(EMBEDDING)} (float32 [128], 512 bytes). A runtime would load it by its name and "
        "compute with the wrong weight."
    )
    assert 'own_data = ["embedding"]' in caught.value.hint
    assert list((tmp_path / "out").iterdir()) == []
    _, path, _ = link_with(other, tmp_path / "own", foundation, own_data=["emb*"])
    assert b"o" * 512 in path.read_bytes()


def test_equal_bytes_of_another_shape_are_refused(foundation: DataIndex, tmp_path: Path) -> None:
    shapes = {"embedding": [2, 64]}
    other = program(tmp_path / "o", "//m:o", {"embedding": EMBEDDING}, {"wq": WQ}, shapes=shapes)
    with pytest.raises(BuildError, match=r"float32 \[2, 64\], 512 bytes.*float32 \[128\], 512"):
        link_with(other, tmp_path / "out", foundation)


def test_own_data_must_name_something(task: Lowered, foundation: DataIndex, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match='own_data = "mask" matches no weight of the program'):
        link_with(task, tmp_path / "out", foundation, own_data=["mask"])


@pytest.mark.parametrize(
    ("delegated", "wanted"),
    [
        ({"other.model": b"x" * 64}, "no weight has the same name or bytes"),
        ({"wq": b"x" * 4096}, "wq: another "),
        ({"wq": WQ[::-1]}, "the same dtype and shape, other values"),
        ({}, "the program has no data that can lie outside of it"),
    ],
    ids=["names", "size", "values", "no_data"],
)
def test_a_file_that_gives_nothing_is_explained(
    delegated: dict[str, bytes], wanted: str, foundation: DataIndex, tmp_path: Path
) -> None:
    other = program(tmp_path / "other", "//m:other", {}, delegated)
    with pytest.raises(BuildError) as caught:
        link_with(other, tmp_path / "out", foundation)
    text = str(caught.value)
    assert "//m:other: its shared data //m:foundation gives it nothing" in text
    assert wanted in text
    assert "Set allow_unshared = True if that is meant." in text
    linked, path, _ = link_with(other, tmp_path / "out", foundation, allow_unshared=True)
    assert linked.shared == () and linked.unused == ("//m:foundation",)
    assert path.read_bytes() == (tmp_path / "other.pte").read_bytes()


def test_a_file_that_gives_less_than_it_seems_is_explained(
    foundation: DataIndex, tmp_path: Path
) -> None:
    """A bias matches, and all weights were quantised in another way."""
    other = program(tmp_path / "o", "//m:o", {}, {"wq": WQ[::-1], "wk": b"K" * 1024, "bias": ZERO})
    with pytest.raises(BuildError) as caught:
        link_with(other, tmp_path / "out", foundation)
    assert "gives it 64 of 3136 bytes: 2 names matched, but their bytes differ" in str(caught.value)


def test_of_two_files_with_the_same_key_one_is_loaded(
    base: Lowered, task: Lowered, foundation: DataIndex, tmp_path: Path
) -> None:
    larger = shared_file(tmp_path / "larger.ptd", "//m:larger", base, task)
    linked, _, _ = link_with(task, tmp_path / "out", foundation, larger)
    assert [s["label"] for s in linked.shared] == ["//m:larger"]
    assert linked.unused == ("//m:foundation",)
    assert linked.unshared == ()
    assert [d["file"] for d in linked.manifest["data"]] == ["larger.ptd"]


def test_two_files_that_overlap_in_part(
    task: Lowered, foundation: DataIndex, tmp_path: Path
) -> None:
    few = program(tmp_path / "few", "//m:few", {}, {"wq": WQ, "lora": LORA})
    second = shared_file(tmp_path / "second.ptd", "//m:second", few)
    linked, path, _ = link_with(task, tmp_path / "out", foundation, second)
    assert [s["label"] for s in linked.shared] == ["//m:foundation"]
    assert LORA in path.read_bytes()
    reasons = {u["name"]: u["reason"] for u in linked.unshared}
    assert "//m:second holds it, but shares keys with //m:foundation" in reasons["lora"]
    beside = shared_file(tmp_path / "beside.ptd", "//m:beside", few, beside=[foundation])
    linked, path, _ = link_with(task, tmp_path / "both", foundation, beside)
    assert [s["label"] for s in linked.shared] == ["//m:foundation", "//m:beside"]
    assert LORA not in path.read_bytes()


def test_two_files_with_other_bytes_for_a_key(
    task: Lowered, foundation: DataIndex, tmp_path: Path
) -> None:
    other = program(tmp_path / "o", "//m:o", {"embedding": b"o" * 512})
    second = shared_file(tmp_path / "second.ptd", "//m:second", other)
    with pytest.raises(BuildError) as caught:
        link_with(task, tmp_path / "out", foundation, second)
    assert caught.value.what.startswith(
        '//m:task: its shared data //m:foundation and //m:second both have "embedding", with '
        f"different bytes: sha256 {sha256(EMBEDDING)} "
    )


@pytest.mark.parametrize("enough", ["90%", "3 kB", "3584"])
def test_enough_is_shared(
    enough: str, task: Lowered, foundation: DataIndex, tmp_path: Path
) -> None:
    link_with(task, tmp_path / "out", foundation, min_shared=enough)


@pytest.mark.parametrize("more", ["99%", "4 kB", "3.6 KiB"])
def test_too_little_is_shared(
    more: str, task: Lowered, foundation: DataIndex, tmp_path: Path
) -> None:
    with pytest.raises(BuildError) as caught:
        link_with(task, tmp_path / "out", foundation, min_shared=more)
    assert f"of its data is shared (3584 of 3712 bytes), wanted at least {more}." in str(
        caught.value
    )
    assert "lora (float32 [64], 64 bytes): no shared file has" in str(caught.value)


@pytest.mark.parametrize("text", ["", "many", "101%", "-1", "5 TB", "1e9"])
def test_an_amount_that_is_none(text: str) -> None:
    with pytest.raises(BuildError, match='min_shared = ".*" is no amount'):
        amount(text, "//m:p: min_shared")


def test_amounts() -> None:
    assert amount("95.5 %", "x") == (95.5, True)
    assert [bytes_of(t, "x") for t in ("7", "2 kB", "1.5MiB")] == [7, 2000, 1.5 * 2**20]
    with pytest.raises(BuildError, match="a share says nothing here"):
        bytes_of("5%", "x")


def test_sizes_are_held_against_limits(
    task: Lowered, foundation: DataIndex, tmp_path: Path
) -> None:
    linked, path, data = link_with(task, tmp_path / "out", foundation, separate=True)
    own = path.stat().st_size + data.stat().st_size
    summary = vars(linked)
    limits = {"max_bytes": str(own + foundation.size), "max_unshared_bytes": str(own)}
    assert size.exceeded("//m:t", summary, limits) == []
    tight = {name: str(int(limit) - 1) for name, limit in limits.items()}
    first, second = size.exceeded("//m:t", summary, tight)
    assert first.startswith(f"//m:t: {own + foundation.size} bytes, wanted at most ")
    assert second.startswith(f"//m:t: {own} bytes, wanted at most {own - 1} (max_unshared_bytes)")
    assert "lora (64 bytes): no shared file has a weight of this name" in second


def test_merged_files(task: Lowered, foundation: DataIndex, tmp_path: Path) -> None:
    _, _, data = link_with(task, tmp_path / "out", foundation, separate=True)
    first = tmp_path / "foundation.ptd"
    merged = merge([first, data], tmp_path / "merged.ptd")
    assert contents(merged) == contents(first) | contents(data)
    assert merge([data], tmp_path / "unused.ptd") == data
    with pytest.raises(BuildError, match="both have the key"):
        merge([first, first], tmp_path / "twice.ptd")


@pytest.mark.parametrize(
    "name", ["_frozen_param0", "a._lifted_tensor_constant3", "lifted_tensor_1"]
)
def test_names_that_export_counts_up_are_no_keys(name: str, tmp_path: Path) -> None:
    assert not is_stable(name) and is_stable("layers.0.scale") and is_stable("block1")
    one = program(tmp_path / "one", "//m:one", {name: b"1" * 2048, "w": WQ})
    two = program(tmp_path / "two", "//m:two", {name: b"2" * 2048, "w": WQ})
    shared = shared_file(tmp_path / "f.ptd", "//m:f", one)
    assert [k.startswith("constant_") for k in sorted(shared.by_key())] == [True, False]
    linked, path, _ = link_with(two, tmp_path / "out", shared)
    assert b"2" * 2048 in path.read_bytes() and linked.shared[0]["keys"] == 1
