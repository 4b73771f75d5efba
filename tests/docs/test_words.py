"""Code, messages and pages use the words of this project, in American English."""

from __future__ import annotations

import os
import re
from pathlib import Path

import prose
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


def test_labels_of_interpreters(paths: list[str]) -> None:
    """Targets that rules_python's repositories of interpreters have."""
    known = {
        "": "files includes libpython pip py3_runtime python3 python_headers python_runtimes",
        "_host": "python",
    }
    found = []
    for path in paths:
        text = (_ROOT / path).read_text(encoding="utf-8")
        for kind, target in re.findall(r"@python_3_\d+(_host)?//:(\w+)", text):
            found.append(target)
            assert target in known[kind].split(), f"{path}: @python_3_…{kind}//:{target}"
    assert {"python3", "files", "python"} <= set(found)


def test_spelling(paths: list[str]) -> None:
    uses = words.misspelled(_ROOT, paths)
    assert not uses, "\n".join(map(str, uses))


def test_style_of_pages(paths: list[str]) -> None:
    """Pages that people write; CHANGELOG.md is a list, others are generated."""
    pages = [
        path
        for path in paths
        if path.endswith(".md") and (path.startswith("docs/") or "/" not in path)
    ]
    assert len(pages) > 20
    faults = []
    for path in pages:
        text = (_ROOT / path).read_text(encoding="utf-8")
        generated = "<!-- Made from docstrings" in text or path == "docs/reference/recipes.md"
        if not generated and path != "CHANGELOG.md":
            faults += prose.faults(text, path)
    assert not faults, "\n".join(faults)


def test_first_lines(paths: list[str]) -> None:
    """Docstrings of Python and Starlark, and comments of headers, Java and Swift."""
    faults = []
    for path in paths:
        if path.endswith((".py", ".bzl", ".h", ".java", ".swift")):
            faults += prose.clauses((_ROOT / path).read_text(encoding="utf-8"), path)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("name", "source", "lines"),
    [
        ("a.py", '"""A module."""\ndef f():\n    """Whether\n    it is."""\n', [3]),
        ("a.py", 'class A:\n    """\n    What it is."""\n    x = """What it is."""\n', [2]),
        ("a.py", 'def f():\n    """Whatsit. If so."""\n', []),
        ("a.bzl", 'x = attr.bool(doc = "Whether " +\n  "so.")\n', [1]),
        ("a.bzl", 'x = provider(\n    fields = {"a": "How " + "so.", "b": "Bool."})\n', [2]),
        ("a.h", "// A file.\n\nint a;\n  // How many\n  // there are.\nint b;  // What\n", [4]),
        ("a.java", "/**\n * Why it is.\n */\n\n/** If so. */\n/** A. */\n", [1, 5]),
        ("a.swift", "/// Its name.\n/// What it is.\n\n/// Who it is.\n", [4]),
    ],
)
def test_clauses(name: str, source: str, lines: list[int]) -> None:
    messages = prose.clauses(source, name)
    assert [int(message.split(":")[1]) for message in messages] == lines


def test_sentences() -> None:
    page = """\
# A heading has none

<!-- nor a comment. -->
One `x. y` is [a
link](b.md). Two, e.g. this: three; four!

- an item
  of two lines
- another

| a table. | none. |

```sh
echo no. none.
```
"""
    assert [(sentence.line, sentence.text) for sentence in prose.sentences(page)] == [
        (4, "One CODE is a link."),
        (5, "Two, e.g. this:"),
        (5, "three;"),
        (5, "four!"),
        (7, "an item of two lines"),
        (9, "another"),
    ]


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        (
            "word " * 30 + "end.\n",
            "a.md:1: sentence: got 31 words, expected at most 30. Split it: ",
        ),
        ("A.\n\n| It is very | small |\n", 'a.md:3: got "very", expected nothing, or a number'),
        (
            "It is built.\n" * 3 + "He runs.\n" * 8,
            "a.md: passive sentences: got 3 of 11, expected at most 25%. Name who acts, in lines "
            "1, 2, 3",
        ),
    ],
)
def test_faults(page: str, fault: str) -> None:
    (message,) = prose.faults(page, "a.md")
    assert message.startswith(fault)


def test_no_faults() -> None:
    """Thirty words, few passives, and words in code are fine."""
    page = "word " * 29 + "end.\n\nUse `very`.\n\n```\nvery\n```\n" + "It is built.\n" * 9
    assert prose.faults("It is built.\n" * 2 + "He runs.\n" * 9, "a.md") == []
    assert prose.faults(page.replace("It is built", "He builds it"), "a.md") == []


@pytest.mark.parametrize(
    ("text", "passive"),
    [
        ("It is only linked once.", True),
        ("Files were written.", True),
        ("The build is hermetic.", False),
        ("You need to link it.", False),
    ],
)
def test_passive(text: str, passive: bool) -> None:
    assert prose.Sentence(1, text).passive == passive


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
