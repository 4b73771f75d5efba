"""Source code can print each message in docs/reference/troubleshooting.md."""

from __future__ import annotations

from pathlib import Path

import catalog
import pytest

_SUFFIXES = {".bzl", ".cc", ".h", ".jinja", ".py", ".sh"}
_FILES = [
    path
    for top in ("backends", "models", "rules", "toolchains", "tools")
    for path in sorted(Path(top).rglob("*"))
    if path.suffix in _SUFFIXES
]
_TEXTS = [text for path in _FILES for text in catalog.messages(path)]
_PATTERNS = catalog.patterns(Path("docs/reference/troubleshooting.md").read_text())


@pytest.mark.parametrize("pattern", _PATTERNS)
def test_the_message_is_there(pattern: str) -> None:
    assert catalog.occurs(pattern, _TEXTS), (
        f'no source prints "{pattern}". Was the message changed? Change '
        'docs/reference/troubleshooting.md, too: "…" there stands for a value'
    )


def test_all_kinds_of_sources_are_searched() -> None:
    assert {path.suffix for path in _FILES} >= {".bzl", ".cc", ".py"}
    assert len(_PATTERNS) > 30


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "raise E(f'{x}: no \"{name}\" in '\n  'the file.', 'hint')"),
        ("a.py", "say(f'no \"{name}\" in ' + ('the ' + 'file' if x else ''))"),
        ("a.bzl", 'fail("%s: no \\"%s\\" in the file." % (a, b))'),
        ("a.bzl", 'fail(("{}: no \\"{}\\" in " +\n "the file.").format(a, b))'),
        ("a.bzl", 'fail("\\n".join(["@{}: no \\"{}\\" in the file".format(a, b), "  got: " + c]))'),
        ("a.cc", 'fail(path + ": no \\"" + name +\n    "\\" in the file.");\n'),
        ("a.sh", 'echo "no "…" in the file"'),
    ],
)
def test_how_messages_are_written(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    texts = catalog.messages(tmp_path / name)
    assert catalog.occurs('no "…" in', texts), texts
    assert not catalog.occurs('no "…" in that file', texts)


def test_what_is_no_message(tmp_path: Path) -> None:
    """Not messages: docstrings, comments, and parts of two separate texts."""
    path = tmp_path / "a.py"
    path.write_text(
        '"""It is gone."""\n# It is gone.\na = attr(doc = "It is gone.")\nb("It is", "gone.")\n'
    )
    assert not catalog.occurs("It is gone", catalog.messages(path))


def test_patterns() -> None:
    page = "| message | cause |\n|---|---|\n| `a …`, or `b \\| c` | `d` |\n"
    page += "\n| other |\n|---|\n| `e` |\n"
    assert catalog.patterns(page) == ["a …", "b \\| c"]
