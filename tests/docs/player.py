"""Plays a page: lays its files into an empty workspace and runs its commands, in their order."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from blocks import Block, read, starts_from
from nested import FOR_APPS, Workspace, environment

# Of the outer build, so that they are not fetched once more: the test needs a file of each.
_REPOSITORIES = (
    *FOR_APPS,
    "executorch_android_api",
    "executorch_cli",
    "executorch_jre",
    "executorch_sbom",
    "executorch_transformers",
)


class PlayError(AssertionError):
    """A command failed, or printed something else: page, line, and what it printed."""


class Player:
    """One workspace and one Bazel server for all pages.

    The workspace is `hello`, with `rules_executorch` beside it, as the README says. `bazel` and
    `bazelw` use the outer build's exporter environment, and so does `python3`, which has PyTorch.

    Args:
      folder: where to make it.
      module: the repository's folder, with the pages.
    """

    def __init__(self, folder: Path) -> None:
        self._workspace = Workspace(
            folder / "hello",
            source=lambda folder, _: folder.mkdir(),
            repositories=_REPOSITORIES,
        )
        self.module = self._workspace.module
        (folder / "rules_executorch").symlink_to(self.module)
        home, programs = folder / "home", folder / "bin"
        home.mkdir()
        programs.mkdir()
        (home / ".bazelrc").write_text(self._workspace.settings)
        (programs / "bazel").symlink_to(self.module / "bazelw")
        exporter = folder / "exporter-of-hello"
        python = programs / "python3"
        python.write_text(
            f"#!/bin/sh\nexport PYTHONPATH={exporter}/site-packages\n"
            f'exec {exporter}/python/bin/python3.11 -s -B "$@"\n'
        )
        python.chmod(0o755)
        self.environment = environment(home) | {"PATH": f"{programs}:{os.environ['PATH']}"}

    def play(self, page: str) -> None:
        """Plays a page, from an empty workspace or from where the page says.

        Args:
          page: its path in the repository.

        Raises:
          PlayError: a block doesn't do what the page says.
        """
        self.lay(page)
        printed = ""
        for block in read((self.module / page).read_text(encoding="utf-8"), page):
            if block.kind == "commands":
                printed = self._run(block, page)
            elif block.kind == "output":
                check_output(block, printed, page)
            else:
                self._lay(block)
        # What the page's files declare, whether it was built or not.
        self.run("bazel query --noshow_progress //...")

    @contextmanager
    def own_repositories(self) -> Iterator[None]:
        """Lets the workspace fetch what it names, instead of the outer build's repositories."""
        settings = Path(self.environment["HOME"], ".bazelrc")
        text = settings.read_text()
        lines = text.splitlines(keepends=True)
        settings.write_text("".join(line for line in lines if "override_repository" not in line))
        try:
            yield
        finally:
            settings.write_text(text)

    def lay(self, page: str) -> None:
        """Empties the workspace, and lays the files that the page begins with.

        Args:
          page: its path in the repository.
        """
        for entry in self._workspace.folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        self._lay_example(page)
        self._lay_start(page)

    def lay_all(self, page: str) -> None:
        """Lays the files that the page begins with, and all of its own.

        Args:
          page: its path in the repository.
        """
        self.lay(page)
        self._lay_blocks(page)

    @property
    def folder(self) -> Path:
        """Of the workspace."""
        return self._workspace.folder

    def run(self, command: str, fails: bool = False) -> str:
        """Runs a command in the workspace; returns what it printed.

        Raises:
          PlayError: it failed, or did not although it must.
        """
        return self._run(Block(0, "sh", command, "commands", fails=fails), "the command")

    def _lay_example(self, page: str) -> None:
        """Copies the example that the page describes."""
        if not page.startswith("examples/"):
            return
        shutil.copytree(
            self.module / page.removesuffix("/README.md"),
            self._workspace.folder,
            ignore=shutil.ignore_patterns("bazel-*"),
            dirs_exist_ok=True,
        )
        self._workspace.replace("MODULE.bazel", 'path = "../.."', f'path = "{self.module}"')

    def _lay_start(self, page: str) -> None:
        """Lays the files of the page that this one continues from; its test runs it."""
        start = starts_from((self.module / page).read_text(encoding="utf-8"))
        if start is None:
            return
        before = os.path.normpath(os.path.join(os.path.dirname(page), start))
        self._lay_start(before)
        self._lay_blocks(before)

    def _lay_blocks(self, page: str) -> None:
        """Lays all files of a page."""
        for block in read((self.module / page).read_text(encoding="utf-8"), page):
            self._lay(block)

    def _lay(self, block: Block) -> None:
        if block.kind not in ("file", "append"):
            return
        path = self._workspace.folder / block.name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a" if block.kind == "append" else "w", encoding="utf-8") as out:
            out.write(("\n" if block.kind == "append" else "") + block.text)

    def _run(self, block: Block, page: str) -> str:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if (done.returncode != 0) != block.fails:
            expected = "a failure" if block.fails else "0"
            raise PlayError(
                f"{page}:{block.line}: exit code {done.returncode}, expected {expected}\n"
                f"{block.text}---\n{done.stdout}"
            )
        return done.stdout

    def close(self) -> None:
        """Ends the server."""
        self._workspace.close()


def check_output(block: Block, printed: str, page: str) -> None:
    """Asserts that commands printed what a block says: its lines, in this order.

    Args:
      block: with "…" for anything.
      printed: by the commands.
      page: its name, for messages.

    Raises:
      PlayError: they didn't.
    """
    rest = printed
    for line in block.text.strip().split("\n"):
        expected = ".*".join(re.escape(part) for part in line.strip().split("…"))
        match = re.search(expected, rest)
        if not match:
            raise PlayError(
                f"{page}:{block.line}: {line.strip()!r} is not in what follows:\n{rest}"
            )
        rest = rest[match.end() :]
