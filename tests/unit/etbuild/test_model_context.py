"""ModelContext and RecipeContext: files and arguments by name, and messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from etbuild import BuildError, ModelContext, Options, RecipeContext


def context(*places: str, **args: str) -> ModelContext:
    """A context whose file at `place` is /disk/place."""
    files = {place: Path("/disk") / place for place in places}
    return ModelContext(args=args, files=files, label="//m:net")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("model.gguf", "smollm2/model.gguf"),
        ("smollm2/model.gguf", "smollm2/model.gguf"),
        ("/smollm2/model.gguf", "smollm2/model.gguf"),
        ("folder/", "deep/folder"),
        ("a.bin", "a.bin"),
    ],
)
def test_a_file_is_found_by_name_and_by_trailing_folders(name: str, place: str) -> None:
    ctx = context("smollm2/model.gguf", "deep/folder", "a.bin", "deep/xa.bin")
    assert ctx.file(name) == Path("/disk") / place


def test_folders_make_a_name_unique() -> None:
    ctx = context("x/base/model.gguf", "x/tuned/model.gguf")
    assert ctx.file("tuned/model.gguf") == Path("/disk/x/tuned/model.gguf")


def test_an_ambiguous_name_lists_all_that_match() -> None:
    with pytest.raises(BuildError) as caught:
        context("x/tuned/model.gguf", "x/base/model.gguf", "y.bin").file("model.gguf")
    assert caught.value.what == (
        '//m:net: the file name "model.gguf" is ambiguous: x/base/model.gguf, x/tuned/model.gguf.'
    )
    assert 'ctx.file("x/tuned/model.gguf")' in caught.value.hint


def test_a_whole_path_is_never_ambiguous() -> None:
    ctx = context("model.gguf", "base/model.gguf", "x/base/model.gguf")
    assert ctx.file("model.gguf") == Path("/disk/model.gguf")
    assert ctx.file("base/model.gguf") == Path("/disk/base/model.gguf")
    assert ctx.file("x/base/model.gguf") == Path("/disk/x/base/model.gguf")


def test_part_of_a_name_does_not_match() -> None:
    with pytest.raises(BuildError, match="not in its data"):
        context("big_model.gguf").file("model.gguf")


def test_an_unknown_name_gets_the_list_and_a_suggestion() -> None:
    with pytest.raises(BuildError) as caught:
        context("smollm2/model.gguf", "vocab.json").file("modell.gguf")
    assert caught.value.what == (
        '//m:net: the model asks for the file "modell.gguf", which is not in its data. '
        "Available: smollm2/model.gguf, vocab.json."
    )
    assert caught.value.hint == (
        'Add it to the data attribute of //m:net, or ask for "smollm2/model.gguf".'
    )


def test_nothing_close_gets_no_suggestion() -> None:
    with pytest.raises(BuildError) as caught:
        context("vocab.json").file("0123456789")
    assert caught.value.hint == "Add it to the data attribute of //m:net."


def test_long_lists_are_cut() -> None:
    with pytest.raises(BuildError) as caught:
        context(*(f"f{n:02}.bin" for n in range(20))).file("zzzzz")
    assert "f07.bin and 12 more." in caught.value.what
    assert "f08.bin" not in caught.value.what


def test_a_target_without_data_is_told_so() -> None:
    with pytest.raises(BuildError) as caught:
        context().file("model.gguf")
    assert caught.value.what == (
        '//m:net: the model asks for the file "model.gguf", but the target has no data.'
    )
    assert caught.value.hint == "Add the file to the data attribute of //m:net."


def test_arguments_and_defaults() -> None:
    ctx = context(layers="2", empty="")
    assert ctx.arg("layers") == "2"
    assert ctx.arg("layers", "7") == "2"
    assert ctx.arg("width", "64") == "64"
    assert ctx.arg("empty", "x") == ""
    assert ctx.arg("width", "") == ""


@pytest.mark.parametrize(("args", "got"), [({}, "none"), ({"layers": "2", "a": "1"}, "a, layers")])
def test_a_missing_argument_says_what_there_is(args: dict[str, str], got: str) -> None:
    with pytest.raises(BuildError) as caught:
        context(**args).arg("width")
    assert caught.value.what == f'//m:net: the model needs the argument "width", and got: {got}.'
    assert caught.value.hint == 'Add args = {"width": "…"} to //m:net.'


def test_a_recipe_finds_its_files_the_same_way() -> None:
    ctx = RecipeContext(Options(), "//r:mine", {"tables/t.json": Path("/disk/t.json")})
    assert ctx.file("t.json") == Path("/disk/t.json")
    with pytest.raises(BuildError, match=r'^//r:mine: .*"u\.json"'):
        ctx.file("u.json")


def test_a_build_error_prints_its_hint_on_a_line_of_its_own() -> None:
    assert str(BuildError("what", "hint")) == "what\nhint"
    assert str(BuildError("what")) == "what"
