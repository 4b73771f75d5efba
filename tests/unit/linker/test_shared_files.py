"""Programs with several shared files, and how much must be shared. Needs no torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from etbuild import BuildError
from etlink.__main__ import main
from synthetic import Shared, contents, link_with, loaded, program, sha256, shared_file

A, B, C, D = (letter * 500 for letter in (b"a", b"b", b"c", b"d"))
APP = {"a": A, "b": B, "c": C, "d": D}


def file_of(folder: Path, name: str, **weights: bytes) -> Shared:
    """A shared file //m:<name> of these portable weights."""
    lowered = program(folder / f"{name}_lowered", f"//m:{name}_base", weights)
    return shared_file(folder / f"{name}.ptd", f"//m:{name}", lowered)


def test_two_files_without_common_keys_are_both_loaded(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", a=A), file_of(tmp_path, "two", b=B, c=C)
    app = program(tmp_path / "app", "//m:app", APP)
    linked, path, data = link_with(app, tmp_path / "out", one, two, separate=True)
    expected = {"p.ptd": ["d"], "one.ptd": ["a"], "two.ptd": ["b", "c"]}
    assert loaded(linked) == expected
    assert list(loaded(linked)) == ["p.ptd", "one.ptd", "two.ptd"]
    assert contents(data) == {"d": D}
    assert not any(blob in path.read_bytes() for blob in (A, B, C, D))


def test_of_two_equal_files_one_is_loaded(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", a=A, b=B), file_of(tmp_path, "two", a=A, b=B)
    app = program(tmp_path / "app", "//m:app", APP)
    for files, chosen, unused in (((one, two), "one", "two"), ((two, one), "two", "one")):
        linked, _, _ = link_with(app, tmp_path / chosen, *files)
        assert loaded(linked) == {f"{chosen}.ptd": ["a", "b"]}
        assert linked.unused == (f"//m:{unused}",)


def test_of_two_files_that_overlap_the_one_that_gives_most_is_loaded(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", a=A, b=B), file_of(tmp_path, "two", b=B, c=C, d=D)
    app = program(tmp_path / "app", "//m:app", APP)
    linked, path, data = link_with(app, tmp_path / "out", one, two, separate=True)
    assert loaded(linked) == {"p.ptd": ["a"], "two.ptd": ["b", "c", "d"]}
    assert contents(data) == {"a": A}
    assert linked.unused == ("//m:one",)
    assert linked.unshared[0]["reason"] == (
        "//m:one holds it, but shares keys with //m:two, and a runtime loads no two files with a "
        "common key"
    )


def test_a_common_key_that_the_program_lacks_counts_too(tmp_path: Path) -> None:
    one = file_of(tmp_path, "one", a=A, other=b"x" * 8)
    two = file_of(tmp_path, "two", b=B, c=C, other=b"x" * 8)
    app = program(tmp_path / "app", "//m:app", APP)
    linked, _, _ = link_with(app, tmp_path / "out", one, two)
    assert loaded(linked) == {"two.ptd": ["b", "c"]}


def test_a_third_file_is_loaded_beside_the_chosen_one(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", a=A, b=B, c=C), file_of(tmp_path, "two", c=C)
    three = file_of(tmp_path, "three", d=D)
    app = program(tmp_path / "app", "//m:app", APP)
    linked, _, data = link_with(app, tmp_path / "out", two, three, one, separate=True)
    expected = {"one.ptd": ["a", "b", "c"], "three.ptd": ["d"]}
    assert (loaded(linked), contents(data)) == (expected, {})


def test_one_key_with_different_bytes_in_two_files_is_refused(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", a=A), file_of(tmp_path, "two", a=B, b=B)
    app = program(tmp_path / "app", "//m:app", APP)
    with pytest.raises(BuildError) as caught:
        link_with(app, tmp_path / "out", one, two)
    assert caught.value.what == (
        '//m:app: its shared data //m:one and //m:two both have "a", with different bytes: sha256 '
        f"{sha256(A)} (float32 [125], 500 bytes) and {sha256(B)} (float32 [125], 500 bytes)."
    )
    assert 'exclude = ["a"]' in caught.value.hint


def test_own_data_never_takes_a_file_for_its_names(tmp_path: Path) -> None:
    one, two = file_of(tmp_path, "one", a=B), file_of(tmp_path, "two", b=B)
    app = program(tmp_path / "app", "//m:app", APP)
    options = {"own_data": ["a"], "allow_unshared": True, "separate": True}
    linked, _, data = link_with(app, tmp_path / "out", one, two, **options)
    # The file with another "a" gives nothing, so it isn't loaded, and the key is free.
    assert linked.unused == ("//m:one",)
    assert contents(data) == {"a": A, "c": C, "d": D}


@pytest.mark.parametrize("expected", ["75%", "74.9%", "1500", "1500 B", "1.5 kB", "1.4 KiB", "0%"])
def test_enough_is_shared(tmp_path: Path, expected: str) -> None:
    index = file_of(tmp_path, "s", a=A, b=B, c=C)
    app = program(tmp_path / "app", "//m:app", APP)
    link_with(app, tmp_path / "out", index, min_shared=expected)


@pytest.mark.parametrize(
    ("expected", "got"),
    [("75.1%", "75.0%"), ("100%", "75.0%"), ("1501", "1500 bytes"), ("1 MB", "1500 bytes")],
)
def test_too_little_is_shared(tmp_path: Path, expected: str, got: str) -> None:
    index = file_of(tmp_path, "s", a=A, b=B, c=C)
    app = program(tmp_path / "app", "//m:app", APP)
    with pytest.raises(BuildError) as caught:
        link_with(app, tmp_path / "out", index, min_shared=expected)
    assert caught.value.what == (
        f"//m:app: {got} of its data is shared (1500 of 2000 bytes), expected at least {expected}. "
        "Largest of its own: d (float32 [125], 500 bytes): no shared file has a weight of this "
        "name."
    )
    assert caught.value.hint.endswith("Rebuild the shared data with it, or lower min_shared.")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize(
    "expected", ["most", "95 %%", "101%", "-5%", "1e6", "10 mb", "1,5 MB", "MB"]
)
def test_a_malformed_amount(tmp_path: Path, expected: str) -> None:
    index = file_of(tmp_path, "s", a=A)
    app = program(tmp_path / "app", "//m:app", APP)
    with pytest.raises(BuildError) as caught:
        link_with(app, tmp_path / "out", index, min_shared=expected)
    assert caught.value.what == (
        f'//m:app: min_shared: got "{expected}", expected a percentage or a number of bytes.'
    )
    assert caught.value.hint.startswith('Write "95%", "100000000", "100 MB"')


def test_equal_bytes_count_once(tmp_path: Path) -> None:
    index = file_of(tmp_path, "s", a=A)
    app = program(tmp_path / "app", "//m:app", {"a": A, "b": B, "same_as_b": B})
    with pytest.raises(BuildError, match=r"50\.0% .* \(500 of 1000 bytes\), expected at least 51%"):
        link_with(app, tmp_path / "out", index, min_shared="51%")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file_of(tmp_path, "one", a=A)
    file_of(tmp_path, "two", b=A)
    app = program(tmp_path / "app", "//m:app", APP)
    words = ["--lowered", app.folder, "--program", tmp_path / "p.pte", "--label", "//m:me"]
    words += [
        "--shared",
        tmp_path / "one.manifest.json",
        "--shared",
        tmp_path / "two.manifest.json",
    ]
    assert main([str(w) for w in words]) == 1
    error = capsys.readouterr().err
    assert error.startswith('ERROR: //m:me: "b" has other bytes in its shared data: ')
    words += ["--own_data", "b", "--allow_unshared", "--min_shared", "25%"]
    assert main([str(w) for w in words]) == 0
    assert main([str(w) for w in [*words, "--min_shared", "26%"]]) == 1
    assert "25.0% of its data is shared" in capsys.readouterr().err
