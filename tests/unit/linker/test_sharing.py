"""Weights that programs leave out because shared files hold them, on synthetic programs."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from etbuild import BuildError
from etlink import pte, schema
from etlink.lowered import Lowered
from etlink.named_data import Layout, content_key, is_stable
from synthetic import (
    FLOAT32,
    Shared,
    SyntheticProgram,
    contents,
    link_with,
    loaded,
    program,
    sha256,
    shared_file,
)

EMBEDDING = bytes(range(256)) * 4
OWN = b"a weight of its own " * 20
FIRST = b"first layer's weight" * 40
SECOND = b"second layer's weight..." * 40
LAYERS = {"layers.0.weight": FIRST, "layers.1.weight": SECOND}


@pytest.fixture
def base(tmp_path: Path) -> Lowered:
    """The program that shared files are made of."""
    return program(tmp_path / "base", "//m:base", {"embedding": EMBEDDING}, LAYERS)


@pytest.fixture
def foundation(tmp_path: Path, base: Lowered) -> Shared:
    """All of its data."""
    return shared_file(tmp_path / "foundation.ptd", "//m:foundation", base)


def app(folder: Path, **fields: object) -> Lowered:
    """A program with the base's weights, a portable and a delegated one of its own."""
    weights = {"embedding": EMBEDDING, "own": OWN}
    return program(folder / "app", "//m:app", weights, {**LAYERS, "head": OWN[::-1]}, **fields)


def tensors(path: Path) -> dict[bytes, int]:
    """Key of each external tensor and its data buffer."""
    external = schema.program_class("TensorDataLocation").EXTERNAL
    values = [v.val for plan in pte.read(path).program.executionPlan for v in plan.values]
    infos = [(t.extraTensorInfo, t.dataBufferIdx) for t in values]
    return {i.fullyQualifiedName: n for i, n in infos if i and i.location == external}


def refused(folder: Path, lowered: Lowered, *files: Shared, **options: object) -> BuildError:
    """The error of a program that can't be linked; nothing may be written."""
    with pytest.raises(BuildError) as caught:
        link_with(lowered, folder / "out", *files, **options)
    assert list((folder / "out").iterdir()) == []
    return caught.value


def test_what_a_shared_file_holds_is_not_in_the_program(tmp_path: Path, foundation: Shared) -> None:
    linked, path, data = link_with(app(tmp_path), tmp_path / "out", foundation)
    whole = path.read_bytes()
    assert not any(blob in whole for blob in (EMBEDDING, FIRST, SECOND))
    assert OWN in whole and OWN[::-1] in whole
    assert not data.exists()
    assert tensors(path) == {b"embedding": 0}
    named = {n.key.decode() for n in pte.read(path).program.namedData}
    assert named == {sha256(OWN[::-1])}
    assert linked.shared == (
        {
            "label": "//m:foundation",
            "file": "foundation.ptd",
            "keys": 3,
            "bytes": len(EMBEDDING) + len(FIRST) + len(SECOND),
            "file_bytes": foundation.file.size,
        },
    )
    assert (linked.unused, linked.embedded) == ((), (sha256(OWN[::-1]), "own"))


def test_its_own_data_file_repeats_no_key(tmp_path: Path, foundation: Shared) -> None:
    linked, path, data = link_with(app(tmp_path), tmp_path / "out", foundation, separate=True)
    assert contents(data) == {"own": OWN, sha256(OWN[::-1]): OWN[::-1]}
    assert not any(blob in path.read_bytes() for blob in (EMBEDDING, FIRST, OWN, OWN[::-1]))
    assert tensors(path) == {b"embedding": 0, b"own": 1}
    assert not contents(data).keys() & foundation.file.by_key().keys()
    keys = sorted(foundation.file.by_key())
    assert loaded(linked) == {"p.ptd": sorted(contents(data)), "foundation.ptd": keys}
    labels = [linked.manifest.files[path].label for path in loaded(linked)]
    assert labels == ["//m:app", "//m:foundation"]


def test_a_kept_weight_stays_in_the_program_when_its_key_is_taken(
    tmp_path: Path, foundation: Shared
) -> None:
    options = {"own_data": ["embedding"], "separate": True}
    linked, path, data = link_with(app(tmp_path), tmp_path / "out", foundation, **options)
    # The key is in the shared file that it loads: a second file with it would be refused.
    assert EMBEDDING in path.read_bytes()
    assert "embedding" not in contents(data)
    assert linked.embedded == ("embedding",)
    (entry,) = [u for u in linked.unshared if u["name"] == "embedding"]
    assert entry["reason"] == "own_data names it"


def test_nothing_left_over_gives_an_empty_own_file(
    tmp_path: Path, base: Lowered, foundation: Shared
) -> None:
    linked, _, data = link_with(base, tmp_path / "out", foundation, separate=True)
    assert (linked.separate, contents(data), linked.unshared) == ((), {}, ())
    assert list(loaded(linked)) == ["foundation.ptd"]


def test_the_same_name_with_other_bytes_is_refused(tmp_path: Path, foundation: Shared) -> None:
    changed = EMBEDDING[::-1]
    other = program(tmp_path / "other", "//m:other", {"embedding": changed}, LAYERS)
    error = refused(tmp_path, other, foundation)
    size = len(EMBEDDING)
    assert error.what == (
        '//m:other: "embedding" has other bytes in its shared data: //m:other has sha256 '
        f"{sha256(changed)} (float32 [{size // 4}], {size} bytes), //m:foundation has sha256 "
        f"{sha256(EMBEDDING)} (float32 [{size // 4}], {size} bytes). A runtime would load it by "
        "its name and compute with the wrong weight."
    )
    assert 'own_data = ["embedding"]' in error.hint
    link_with(other, tmp_path / "out", foundation, own_data=["embedding"])
    assert changed in (tmp_path / "out" / "p.pte").read_bytes()


def test_allow_unshared_never_allows_other_bytes(tmp_path: Path, foundation: Shared) -> None:
    other = program(tmp_path / "other", "//m:other", {"embedding": EMBEDDING[::-1]})
    error = refused(tmp_path, other, foundation, allow_unshared=True)
    assert '"embedding" has other bytes in its shared data' in error.what


def test_the_same_bytes_with_another_shape_are_refused(tmp_path: Path, foundation: Shared) -> None:
    shapes = {"embedding": [16, 16]}
    weights = {"embedding": EMBEDDING}
    other = program(tmp_path / "other", "//m:other", weights, LAYERS, shapes=shapes)
    error = refused(tmp_path, other, foundation)
    assert "(float32 [16, 16], 1024 bytes), //m:foundation has sha256" in error.what
    assert "(float32 [256], 1024 bytes). A runtime would" in error.what


def test_a_file_without_common_names_is_refused(tmp_path: Path, foundation: Shared) -> None:
    other = program(tmp_path / "other", "//m:other", {"own": OWN})
    error = refused(tmp_path, other, foundation)
    assert error.what == (
        "//m:other: its shared data //m:foundation gives it nothing: no weight has the same name "
        "or bytes. The program has own; the shared file has embedding, layers.0.weight, "
        "layers.1.weight."
    )
    assert error.hint == (
        "Was it made from another model? Set allow_unshared = True if that is meant."
    )


def test_allow_unshared_takes_a_file_that_gives_nothing(tmp_path: Path, foundation: Shared) -> None:
    other = program(tmp_path / "other", "//m:other", {"own": OWN})
    linked, path, _ = link_with(other, tmp_path / "out", foundation, allow_unshared=True)
    assert path.read_bytes() == (tmp_path / "other.pte").read_bytes()
    assert (linked.shared, linked.unused) == ((), ("//m:foundation",))
    assert linked.unshared[0]["reason"] == "no shared file has a weight of this name"
    assert loaded(linked) == {}


def other_recipe(folder: Path, dtype: str, layers: dict[str, bytes]) -> Lowered:
    """The base's layers with other bytes."""
    synthetic = SyntheticProgram(
        methods={"forward": {}},
        named={sha256(d): d for d in layers.values()},
        weights={sha256(d): (n, dtype) for n, d in layers.items()},
        label="//m:other",
    )
    return synthetic.lower(folder / "other")


def test_a_file_of_another_dtype_is_explained(tmp_path: Path, foundation: Shared) -> None:
    layers = {name: data[: len(data) // 4] for name, data in LAYERS.items()}
    error = refused(tmp_path, other_recipe(tmp_path, "qcint8", layers), foundation)
    assert error.what == (
        "//m:other: its shared data //m:foundation gives it nothing: 2 names matched, but their "
        "bytes differ, e.g. layers.1.weight: another dtype (program: qcint8 [240], 240 bytes; "
        "shared: float32 [960], 960 bytes); layers.0.weight: another dtype (program: qcint8 [200], "
        "200 bytes; shared: float32 [800], 800 bytes)."
    )
    assert error.hint.startswith("It was made with another recipe (dtype or layout). ")


def test_a_file_of_other_values_is_explained(tmp_path: Path, foundation: Shared) -> None:
    layers = {name: data[::-1] for name, data in LAYERS.items()}
    error = refused(tmp_path, other_recipe(tmp_path, "float32", layers), foundation)
    assert "2 names matched" in error.what
    assert "layers.1.weight: the same dtype and shape, other values (program: " in error.what
    assert error.hint.startswith("It was made from other weights, or by another quantization. ")


def test_a_file_that_gives_less_than_it_misses_is_refused(
    tmp_path: Path, foundation: Shared
) -> None:
    delegated = {"layers.0.weight": FIRST, "layers.1.weight": SECOND[::-1]}
    other = program(tmp_path / "other", "//m:other", {}, delegated)
    error = refused(tmp_path, other, foundation)
    expected = (
        "//m:other: its shared data //m:foundation gives it 800 of 1760 bytes: 1 names matched"
    )
    assert error.what.startswith(expected)
    linked, path, _ = link_with(other, tmp_path / "out", foundation, allow_unshared=True)
    assert FIRST not in path.read_bytes()
    assert linked.unshared[0]["reason"].startswith(
        "//m:foundation has other bytes for layers.1.weight: the same dtype and shape, other values"
    )


def test_a_program_without_data_is_explained(tmp_path: Path, foundation: Shared) -> None:
    error = refused(tmp_path, program(tmp_path / "e", "//m:empty"), foundation)
    assert error.what == (
        "//m:empty: its shared data //m:foundation gives it nothing: the program has no data that "
        "can lie outside of it."
    )


def test_own_data_takes_patterns_and_says_which_match_nothing(
    tmp_path: Path, foundation: Shared
) -> None:
    lowered = app(tmp_path)
    link_with(lowered, tmp_path / "first", foundation, own_data=["emb*"])
    assert EMBEDDING in (tmp_path / "first" / "p.pte").read_bytes()
    error = refused(tmp_path, lowered, foundation, own_data=["layer.*"])
    assert error.what == '//m:app: own_data = "layer.*" matches no weight of the program.'
    assert error.hint.startswith("Its weights are embedding, head, layers.0.weight")


def test_own_data_is_no_matter_of_equal_bytes_in_delegates(
    tmp_path: Path, foundation: Shared
) -> None:
    linked, path, _ = link_with(
        app(tmp_path), tmp_path / "out", foundation, own_data=["layers.1.*"]
    )
    # Its key says what its bytes are: a copy of them would be the same weight.
    assert SECOND not in path.read_bytes()
    assert sha256(SECOND) not in linked.embedded


def test_nothing_shared_gives_the_bytes_of_upstream(tmp_path: Path) -> None:
    lowered = app(tmp_path)
    _, path, _ = link_with(lowered, tmp_path / "out")
    assert path.read_bytes() == (tmp_path / "app.pte").read_bytes()


def test_two_links_give_the_same_bytes(tmp_path: Path, foundation: Shared) -> None:
    result = []
    for name in ("a", "b"):
        written = link_with(app(tmp_path), tmp_path / name, foundation, separate=True)
        linked, path, data = written
        result.append((linked, path.read_bytes(), data.read_bytes()))
    assert result[0] == result[1]


def test_data_without_bytes_is_no_matter_of_sharing(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, {**LAYERS, "empty": b""})
    index = shared_file(tmp_path / "s.ptd", "//m:s", base)
    assert sha256(b"") not in index.file.by_key()
    linked, path, data = link_with(base, tmp_path / "out", index, separate=True)
    assert [n.key.decode() for n in pte.read(path).program.namedData] == [sha256(b"")]
    assert (linked.separate, linked.unshared[0]["reason"]) == ((), "it is empty")


def test_a_zero_bias_that_equals_another_constant(tmp_path: Path) -> None:
    zeros = {"a.bias": bytes(64), "cache.start": bytes(64), "a.weight": OWN}
    base = program(tmp_path / "base", "//m:base", zeros)
    index = shared_file(tmp_path / "s.ptd", "//m:s", base)
    # Upstream keeps one constant for both; each name is a key of its own, of one segment.
    assert (tmp_path / "s.ptd").read_bytes().count(bytes(64)) >= 1
    assert {k: e.names for k, e in index.file.by_key().items()} == {k: (k,) for k in zeros}
    user = program(tmp_path / "user", "//m:user", {"a.bias": bytes(64), "a.weight": OWN, "z": OWN})
    linked, path, _ = link_with(user, tmp_path / "out", index)
    assert tensors(path) == {b"a.bias": 0, b"a.weight": 1}
    # The bytes of "z" are those of "a.weight", but a tensor is loaded by its own name.
    assert linked.embedded == ("z",)
    assert path.read_bytes().count(OWN) == 1


@pytest.mark.parametrize(
    "name",
    ["_frozen_param0", "layer._frozen_param12", "_tensor_constant3", "lifted_tensor_0", "scale_7"],
)
def test_names_that_export_counts_up_are_no_keys(tmp_path: Path, name: str) -> None:
    assert not is_stable(name)
    key = content_key(sha256(EMBEDDING), Layout(FLOAT32, (256,), (0,)))
    one = program(tmp_path / "one", "//m:one", {name: EMBEDDING})
    index = shared_file(tmp_path / "s.ptd", "//m:s", one)
    assert list(index.file.by_key()) == [key] and not index.file.keys[0].names
    # Another program has other bytes under the same counted name: no conflict, nothing shared.
    other = program(
        tmp_path / "two", "//m:two", {name: EMBEDDING[::-1], "_frozen_param9": EMBEDDING}
    )
    linked, path, _ = link_with(other, tmp_path / "out", index)
    assert tensors(path) == {key.encode(): 0}
    assert linked.unshared[0]["reason"] == "no shared file has these bytes, and they have no name"


@pytest.mark.parametrize(
    "name", ["frozen.param", "scale", "layers.0.scale", "my_scale.weight", "w0"]
)
def test_names_of_a_model_are_keys(name: str) -> None:
    assert is_stable(name)


def test_a_small_constant_without_a_name_stays(tmp_path: Path) -> None:
    weights = {"_frozen_param0": EMBEDDING[:100], "w": OWN}
    lowered = program(tmp_path / "l", "//m:l", weights)
    assert list(shared_file(tmp_path / "s.ptd", "//m:s", lowered).file.by_key()) == ["w"]


def test_an_alignment_that_a_shared_file_lacks(tmp_path: Path) -> None:
    base = program(tmp_path / "base", "//m:base", {}, LAYERS)
    index = shared_file(tmp_path / "s.ptd", "//m:s", base)
    alignments = {sha256(FIRST): 4096}
    user = program(tmp_path / "user", "//m:user", {}, LAYERS, alignments=alignments)
    linked, path, _ = link_with(user, tmp_path / "out", index)
    assert FIRST in path.read_bytes() and SECOND not in path.read_bytes()
    assert linked.unshared[0]["reason"] == "//m:s holds it with an alignment of 1 bytes only"
    strict = [dataclasses.replace(e, alignment=4096) for e in index.file.keys]
    aligned = index._replace(file=dataclasses.replace(index.file, keys=tuple(strict)))
    link_with(user, tmp_path / "out", aligned)
    assert FIRST not in path.read_bytes()


def test_a_file_of_another_backend_is_explained(tmp_path: Path) -> None:
    """Portable operators load by name, delegates by sha256; the bytes are the same."""
    delegated = program(tmp_path / "delegated", "//m:delegated", {}, {"w": b"w" * 4096})
    shared = shared_file(tmp_path / "f.ptd", "//m:f", delegated)
    portable = program(tmp_path / "portable", "//m:portable", {"w": b"w" * 4096})
    with pytest.raises(BuildError) as caught:
        link_with(portable, tmp_path / "out", shared)
    assert "1 names matched, but not their keys, e.g. w: the same bytes under the key of" in str(
        caught.value
    )
    assert "make it from a lowering of this recipe, too" in caught.value.hint


def test_a_name_matches_itself_before_it_is_a_pattern(tmp_path: Path) -> None:
    source = program(tmp_path / "l", "//m:l", {"pd.x[0]": EMBEDDING, "pd.y": OWN * 9})
    index = shared_file(tmp_path / "s.ptd", "//m:s", source)
    linked, _, _ = link_with(source, tmp_path / "out", index, own_data=["pd.x[0]"])
    assert linked.embedded == ("pd.x[0]",)
    assert list(
        shared_file(tmp_path / "t.ptd", "//m:t", source, exclude=["pd.x[0]"]).file.by_key()
    ) == ["pd.y"]


def test_own_data_of_a_program_by_name_stay_in_it(tmp_path: Path) -> None:
    base = program(tmp_path / "b", "//m:b", {"mask": EMBEDDING, "w": OWN * 9})
    index = shared_file(tmp_path / "s.ptd", "//m:s", base)
    weights = {"mask": EMBEDDING[::-1], "w": OWN * 9, "lora": b"rank" * 30}
    source = program(tmp_path / "l", "//m:l", weights)
    options = {"separate": True, "adapter_data": "by_name"}
    linked, path, data = link_with(source, tmp_path / "out", index, own_data=["mask"], **options)
    assert linked.embedded == ("mask",) and EMBEDDING[::-1] in path.read_bytes()
    assert list(contents(data)) == ["lora"]
