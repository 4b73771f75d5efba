"""Code, messages and pages use the words of this project, in American English."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import words

_ROOT = Path(os.path.realpath("bazelw")).parent


@pytest.fixture(scope="module")
def paths() -> list[str]:
    return list(words.texts(_ROOT))


def test_the_whole_tree_is_read(paths: list[str]) -> None:
    assert len(paths) > 1000
    assert {"README.md", "rules/defs.bzl", "tools/runner/run.cc", "bazelw"} <= set(paths)
    assert not [path for path in paths if path.startswith("bazel-")]


def test_retired_words(paths: list[str]) -> None:
    uses = words.retired(_ROOT, paths)
    assert not uses, "\n".join(map(str, uses))


def test_spelling(paths: list[str]) -> None:
    uses = words.misspelled(_ROOT, paths)
    assert not uses, "\n".join(map(str, uses))


@pytest.mark.parametrize(
    ("text", "uses"),
    [
        ("The files were made up.\n", [(1, "made up")]),
        ("x\nfail('in the ' +\n     'place of it')\n", [(2, "in the ' + 'place of")]),
        ('x = ("in "\n  f"the {y}" f"place of")\n', []),
        ('x = ("in "\n  f"the place of {y}")\n', [(1, 'in " f"the place of')]),
        ("# It is in the\n# place of it.\n", [(1, "in the # place of")]),
        ("STANDIN = stand_in or MadeUp\n", [(1, "MadeUp"), (1, "STANDIN"), (1, "stand_in")]),
        ("def quantise(): ...\n", [(1, "quantis")]),
        ("In place of the file; a made upper bound; quantist; standing.\n", []),
    ],
)
def test_retired_phrases(tmp_path: Path, text: str, uses: list[tuple[int, str]]) -> None:
    (tmp_path / "a.py").write_text(text)
    assert [(use.line, use.word) for use in words.retired(tmp_path, ["a.py"])] == uses


def test_misspelled_words(tmp_path: Path) -> None:
    """British spellings and typing errors; names of formats are none."""
    (tmp_path / "a.md").write_text("A .ptd file.\nThe colour of teh model.\n")
    uses = [(use.line, use.word, use.instead) for use in words.misspelled(tmp_path, ["a.md"])]
    assert uses == [(2, "colour", "color"), (2, "teh", "the")]


def test_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "made_up.py").write_text("x = 1\n")
    assert list(words.texts(tmp_path)) == ["made_up.py"]
    (use,) = words.retired(tmp_path, ["made_up.py"])
    assert str(use) == (
        'made_up.py:0: got "made_up", expected "malformed (files); synthetic, example (test data)"'
    )


def test_texts_only(tmp_path: Path) -> None:
    """Data, hidden folders, links and build outputs are left out."""
    for name in ("a.py", "b.bin", ".git/c", "d/e.md", "toolchains/locks/f.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"\0" if name == "b.bin" else b"x")
    (tmp_path / "bazel-bin").symlink_to(tmp_path / "d")
    assert list(words.texts(tmp_path)) == ["a.py", "d/e.md"]
