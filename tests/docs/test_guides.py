"""The README, Start, how-to pages and examples' pages, block by block, with real Bazel.

They run in a workspace of a user; an example's page in the example as it stands.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest
import yaml
from blocks import Block, read, starts_from
from fake_hub import FakeHub
from player import Player, PlayError, check_output

_FOLDERS = ("start", "howto")
# Examples are workspaces of their own, which the module's targets cannot name.
_MODULE = Path(os.path.realpath("bazelw")).parent
_EXAMPLES = sorted(path.name for path in (_MODULE / "examples").iterdir() if path.is_dir())
_PAGES = [
    "README.md",
    *sorted(str(page) for name in _FOLDERS for page in Path("docs", name).glob("*.md")),
    *[f"examples/{name}/README.md" for name in _EXAMPLES],
]

# Blocks that the tests leave alone, by page. A new one needs a good reason.
_SKIPPED = {
    "README.md": 1,
    "docs/howto/accelerators.md": 3,
    "docs/howto/apps.md": 14,
    "docs/howto/backend.md": 7,
    "docs/howto/ci.md": 9,
    "docs/howto/debug.md": 5,
    "docs/howto/models.md": 6,
    "docs/howto/recipes.md": 1,
    "docs/howto/runtimes.md": 9,
    "docs/howto/sharing.md": 3,
    "docs/start/android.md": 8,
    "docs/start/hugging-face.md": 1,
    "docs/start/ios.md": 6,
    "docs/start/llm.md": 6,
    "examples/android_app/README.md": 1,
    "examples/container/README.md": 1,
    "examples/hermetic/README.md": 1,
    "examples/ios_app/README.md": 1,
    "examples/llm/README.md": 3,
    "examples/monorepo/README.md": 1,
}


# They take long, and other tests run most of what they show: //tests:release plays them.
_LONG = (
    "README.md",
    "docs/howto/accelerators.md",
    "docs/howto/debug.md",
    "docs/howto/fleet.md",
    "docs/howto/migrate.md",
    "docs/howto/models.md",
    "docs/howto/recipes.md",
    "docs/howto/sharing.md",
    "examples/ci/README.md",
    "examples/hello/README.md",
    "examples/lora_tasks/README.md",
    "examples/qat/README.md",
)
# Targets whose analysis fails, as their page says.
_WRONG = {"docs/howto/recipes.md": ("//:int5",)}
# Its commands write the MODULE.bazel that an analysis would need.
_HUB_PAGE = "docs/start/hugging-face.md"
# Its exporters are others than that of the outer build.
_UPGRADE_PAGE = "docs/howto/upgrade.md"


def blocks_of(page: str) -> list[Block]:
    return read((_MODULE / page).read_text(), page)


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.release) if page in _LONG else page
        for page in _PAGES
        if page not in (_HUB_PAGE, _UPGRADE_PAGE)
        and any(b.kind == "commands" for b in blocks_of(page))
    ],
)
def test_the_page_works(page: str, player: Player) -> None:
    player.play(page)


@pytest.mark.release
def test_the_page_of_the_hub_works(player: Player) -> None:
    """With a fake hub and small random models under the page's ids."""
    from guide_models import add_models

    hub = FakeHub()
    try:
        add_models(hub)
        player.environment["HF_ENDPOINT"] = hub.endpoint
        player.play(_HUB_PAGE)
    finally:
        player.environment.pop("HF_ENDPOINT", None)
        hub.close()


@pytest.mark.release
def test_the_page_of_upgrades_works(player: Player) -> None:
    """From 1.4.1 to 1.5.1, with exporters that are installed for it."""
    with player.own_repositories():
        player.play(_UPGRADE_PAGE)


@pytest.mark.few(1)
@pytest.mark.parametrize("page", _LONG)
def test_the_pages_targets_are_correct(page: str, player: Player) -> None:
    """All that the page's files declare, up to the analysis, but what it shows to be wrong."""
    player.lay_all(page)
    without = [f"-{target}" for target in _WRONG.get(page, ())]
    player.run(shlex.join(["bazel", "build", "--nobuild", "--", "//...", *without]))


def test_the_readme_writes_the_smallest_example() -> None:
    files = {block.name: block.text for block in blocks_of("README.md") if block.kind == "file"}
    assert sorted(files) == [".bazelversion", "BUILD.bazel", "MODULE.bazel", "net.py"]
    for name, text in files.items():
        example = (_MODULE / "examples/hello" / name).read_text()
        assert text == example.replace('path = "../.."', 'path = "../rules_executorch"'), name


def test_what_continuous_integration_runs(player: Player) -> None:
    """Bazel takes each command of the workflow, up to the analysis, without the company's cache."""
    player.lay("examples/ci/README.md")
    folder = _MODULE / "examples/ci"
    workflow = yaml.safe_load((folder / ".github/workflows/executorch.yml").read_text())
    # YAML 1.1 reads the key "on" as a truth value.
    assert set(workflow[True]) == {"pull_request", "push"}
    assert set(workflow["jobs"]) == {"release", "test"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    lines = [line for step in steps for line in step.get("run", "").splitlines()]
    commands = [line for line in lines if line.startswith("bazel ")]
    assert len(commands) == 3
    for command in commands:
        words = shlex.split(command)
        flags, rest = words[2:], []
        if "--" in flags:
            flags, rest = flags[: flags.index("--")], flags[flags.index("--") :]
        assert rest in ([], ["--", "dist"])
        # `build` takes the flags of `test` and `run`.
        player.run(shlex.join(["bazel", "build", *flags, "--nobuild", "--remote_cache="]))
    presets = (_MODULE / "tools/dev/remote/remote.bazelrc").read_text()
    assert (folder / "remote.bazelrc").read_text() == presets


def test_what_is_skipped() -> None:
    """Few blocks are skipped, each with a reason."""
    skipped = {}
    for page in _PAGES:
        blocks = [b for b in blocks_of(page) if b.kind == "skipped"]
        for block in blocks:
            print(f"{page}:{block.line}: not tested: {block.name}")
        if blocks:
            skipped[page] = len(blocks)
    assert skipped == _SKIPPED


@pytest.mark.parametrize("page", _PAGES)
def test_links(page: str) -> None:
    """A page that continues from another one names one that exists."""
    start = starts_from((_MODULE / page).read_text())
    assert start is None or (_MODULE / page).parent.joinpath(start).exists()


@pytest.mark.parametrize("name", ["", *_EXAMPLES])
def test_links_of_examples(name: str) -> None:
    """tests/docs/test_pages.py checks the other pages, which it can name."""
    page = _MODULE / "examples" / name / "README.md"
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    assert links
    for link in links:
        assert (page.parent / link).exists(), f"{page}: {link}: file not found"


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
