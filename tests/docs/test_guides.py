"""The README, Start and how-to pages, block by block, in a workspace of a user with real Bazel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from blocks import Block, read, starts_from
from player import Player, PlayError, check_output

_FOLDERS = ("start", "howto")
_PAGES = [
    "README.md",
    *sorted(str(page) for name in _FOLDERS for page in Path("docs", name).glob("*.md")),
]

# Blocks that the tests leave alone, by page. A new one needs a good reason.
_SKIPPED = {
    "README.md": 1,
    "docs/howto/apps.md": 7,
    "docs/howto/backend.md": 4,
    "docs/howto/ci.md": 6,
    "docs/howto/debug.md": 2,
    "docs/howto/models.md": 1,
    "docs/howto/runtimes.md": 4,
    "docs/howto/sharing.md": 3,
    "docs/start/android.md": 7,
    "docs/start/ios.md": 4,
    "docs/start/llm.md": 5,
}


@pytest.fixture(scope="module")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    new_player = Player(tmp_path_factory.mktemp("guides"))
    yield new_player
    new_player.close()


@pytest.mark.parametrize("page", _PAGES)
def test_the_page_works(page: str, player: Player) -> None:
    player.play(page)


def test_what_is_skipped() -> None:
    """Few blocks are skipped, each with a reason."""
    skipped = {}
    for page in _PAGES:
        blocks = [b for b in read(Path(page).read_text(), page) if b.kind == "skipped"]
        for block in blocks:
            print(f"{page}:{block.line}: not tested: {block.name}")
        if blocks:
            skipped[page] = len(blocks)
    assert skipped == _SKIPPED


@pytest.mark.parametrize("page", _PAGES)
def test_links(page: str) -> None:
    """A page that continues from another one names one that exists."""
    start = starts_from(Path(page).read_text())
    assert start is None or (Path(page).parent / start).exists()


def test_a_wrong_page(player: Player, tmp_path: Path) -> None:
    """Commands with a wrong exit code or other output are errors."""
    block = Block(7, "text", "one … three\nfour\n", "output")
    check_output(block, "zero\none two three\nx\nfour five\n", "a.md")
    with pytest.raises(PlayError, match=r"a.md:7: 'four' is not in what follows"):
        check_output(block, "four\none two three\n", "a.md")
    page = tmp_path / "a.md"
    for text, says in (
        ("```sh\necho no; false\n```\n", r"a.md:1: exit code 1, expected 0\n(?s:.*)---\nno"),
        (
            "```sh\ntrue\n```\n\nIt fails:\n\n```text\nx\n```\n",
            "a.md:1: exit code 0, expected a fail",
        ),
    ):
        page.write_text(text)
        with pytest.raises(PlayError, match=says):
            player.play(str(page))
