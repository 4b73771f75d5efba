"""Links are valid, the README leads to every page, and commands can be pasted."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

_LINK = re.compile(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TOP = [
    Path(name + ".md")
    for name in ("ARCHITECTURE", "CHANGELOG", "CONTRIBUTING", "README", "SECURITY")
]
_PAGES = [*_TOP, *sorted(Path("docs").rglob("*.md"))]


def links(page: Path) -> list[str]:
    """Relative ones, outside of code."""
    text = re.sub(r"`[^`\n]*`", "", _BLOCK.sub("", page.read_text(encoding="utf-8")))
    return [link for link in _LINK.findall(text) if "://" not in link and "@" not in link]


def anchors(page: Path) -> set[str]:
    """GitHub's anchors for the page's headings."""
    text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(words.strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", _PAGES, ids=str)
def test_links_to_pages(page: Path) -> None:
    """Their files and headings; links to sources are not followed."""
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = Path(os.path.normpath(page.parent / name)) if name else page
        if target.suffix == ".md":
            assert target in _PAGES, f"{page}: {link}: there is no such page"
            assert not anchor or anchor in anchors(target), f"{page}: {link}: no such heading"


def test_every_page_can_be_found() -> None:
    seen, pending = set(), [Path("README.md")]
    while pending:
        page = pending.pop()
        if page in seen:
            continue
        seen.add(page)
        targets = [os.path.normpath(page.parent / link.partition("#")[0]) for link in links(page)]
        pending += [Path(target) for target in targets if Path(target) in _PAGES]
    assert not set(_PAGES) - seen, "the README doesn't lead to these pages"


def test_the_contents_list_every_page() -> None:
    contents = Path("docs/contents.md")
    listed = {Path(os.path.normpath(contents.parent / link)) for link in links(contents)}
    assert not set(_PAGES) - listed - {contents}, "docs/contents.md does not list these pages"


def test_the_site_leads_to_every_page() -> None:
    """MkDocs does not build a site with pages outside of its navigation, and no test builds it."""
    navigation = Path("docs/site/mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    listed = {
        Path("README.md" if name == "index.md" else name)
        for name in re.findall(r"^ +- ([\w/.-]+\.md)$", navigation, re.MULTILINE)
    }
    pages = {page if page in _TOP else page.relative_to("docs") for page in _PAGES}
    assert listed == pages, "docs/site/mkdocs.yml does not list exactly these pages"


@pytest.mark.parametrize("page", _PAGES, ids=str)
def test_commands_can_be_pasted(page: Path) -> None:
    """Commands have no prompts and need no root permissions."""
    for language, text in _BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in ("sh", "bash", "console"):
            assert language == "sh", f"{page}: blocks of commands are sh, not {language}"
            assert not re.search(r"^\s*\$ ", text, re.MULTILINE), f"{page}: a prompt:\n{text}"
            assert not re.search(r"\bsudo\b", text), f"{page}: a command needs root:\n{text}"


def test_versions() -> None:
    """Pages name the version in MODULE.bazel."""
    expected = re.search(r'version = "([^"]+)"', Path("MODULE.bazel").read_text())[1]
    pattern = re.compile(r'bazel_dep\(name = "rules_executorch", version = "([^"]+)"')
    found = {page: pattern.findall(page.read_text(encoding="utf-8")) for page in _PAGES}
    assert found[Path("README.md")]
    assert {version for versions in found.values() for version in versions} == {expected}


def test_what_links_are() -> None:
    assert _LINK.findall("[a](b.md), [two\nwords](c.md#d) [x](https://e.f)") == [
        "b.md",
        "c.md#d",
        "https://e.f",
    ]
