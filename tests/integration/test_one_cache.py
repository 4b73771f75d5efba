"""One cache for everybody: an example's actions are those of its copy, built by another user."""

from __future__ import annotations

import difflib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import FOR_APPS, Workspace, environment, fakes

# All but android_app, whose model is that of llm, and those with fakes of rules_python's downloads.
_EXAMPLES = (
    "examples/hello",
    "examples/ci",
    "examples/container",
    "examples/ios_app",
    "examples/llm",
    "examples/lora_tasks",
    "examples/qat",
)

# As the presets set it: without it, PATH is part of all actions that have an environment.
_FLAGS = ("--incompatible_strict_action_env",)

# Trees of links, with this machine's paths: each Bazel makes its own, and no cache stores them.
_LINKS = ("Mnemonic: SourceSymlinkManifest ", "Mnemonic: SymlinkTree ")


class Copy:
    """A copy of an example, and a user who builds it.

    Args:
      folder: where to copy it.
      mask: the user's umask.
      variables: of the user's environment.
      flags: of the user's commands.
    """

    def __init__(
        self, folder: Path, mask: int, variables: Mapping[str, str], flags: tuple[str, ...]
    ) -> None:
        self._mask, self._variables, self._flags = mask, variables, (*_FLAGS, *flags)
        self._fakes: list[str] = []
        self.workspace = self._masked(
            lambda: Workspace(
                folder, source=_EXAMPLES[0], repositories=FOR_APPS, compiled_once=False
            )
        )

    def _masked(self, do: Any) -> Any:
        old = os.umask(self._mask)
        try:
            return do()
        finally:
            os.umask(old)

    def lay(self, example: str) -> None:
        """Copies another example there."""
        self._fakes = fakes(self.workspace.module, example)
        self._masked(lambda: self.workspace.lay(example))

    def run(self, command: str, *arguments: str) -> str:
        """Runs Bazel as the user; returns its output."""
        return self._masked(
            lambda: self.workspace.run(
                command, *self._flags, *self._fakes, *arguments, **self._variables
            )
        )

    def actions(self) -> dict[str, list[str]]:
        """The example's actions but those of _LINKS: identities to descriptions, in lines."""
        printed = self.run("aquery", "--output=text", "deps(//...)")
        blocks = re.findall(r"^action '.*?(?=^\n|\Z)", printed, re.MULTILINE | re.DOTALL)
        described = {_identity(block): block.splitlines() for block in blocks}
        return {key: described[key] for key in described if not key.strip().startswith(_LINKS)}


def _identity(block: str) -> str:
    lines = re.findall(r"^  (?:Mnemonic|Target|Outputs): .*", block, re.MULTILINE)
    return "".join(lines)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Copy, Copy]]:
    """A user with few settings, and one with others in a path with spaces."""
    top = tmp_path_factory.mktemp("copies")
    home = top / "home"
    home.mkdir()
    other = {
        **environment(home),
        "LC_ALL": "C",
        "PATH": f"{top}:{os.environ['PATH']}",
        "TZ": "Pacific/Auckland",
        "USER": "somebody",
    }
    created = (
        Copy(top / "one", 0o022, {"TZ": "UTC"}, ("--jobs=1",)),
        Copy(top / "a longer path/two words", 0o077, other, ("--jobs=3",)),
    )
    yield created
    for copy in created:
        copy.workspace.close()


@pytest.mark.parametrize("example", _EXAMPLES)
def test_actions_are_equal(copies: tuple[Copy, Copy], example: str) -> None:
    """Command lines, variables, inputs, properties and keys of all actions."""
    for copy in copies:
        copy.lay(example)
    one, two = (copy.actions() for copy in copies)
    assert any("Mnemonic: EtLower" in identity for identity in one)
    assert sorted(one) == sorted(two)
    changes = [
        line
        for identity in one
        if one[identity] != two[identity]
        for line in [identity, *difflib.unified_diff(one[identity], two[identity], "one", "two")]
    ]
    assert not changes, "\n".join(changes)


def test_the_second_user_runs_nothing(copies: tuple[Copy, Copy], tmp_path: Path) -> None:
    """All actions of a program and its test are in the first user's cache."""
    logs = []
    for number, copy in enumerate(copies):
        copy.lay(_EXAMPLES[0])
        log = tmp_path / f"{number}.json"
        flags = [f"--disk_cache={tmp_path / 'cache'}", f"--execution_log_json_file={log}"]
        copy.run("build", *flags, "//...")
        logs.append(_spawns(log))
    one, two = logs
    assert any(spawn["mnemonic"] == "EtLower" for spawn in one.values())
    missed = [
        f"{outputs}: {difference}"
        for outputs, spawn in two.items()
        if not spawn["cacheHit"]
        for difference in _differences(one.get(outputs, {}), spawn)
    ]
    assert not missed, "\n".join(missed)


def _spawns(log: Path) -> dict[str, dict[str, Any]]:
    """Entries of an execution log by their outputs."""
    text, decoder, spawns, at = log.read_text(), json.JSONDecoder(), {}, 0
    while at < len(text):
        entry, at = decoder.raw_decode(text, at)
        at += len(text[at:]) - len(text[at:].lstrip())
        spawns[" ".join(entry["listedOutputs"])] = entry
    return spawns


def _differences(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """Names the differences of an action: "inputs: bazel-out/x", or "nothing that the log has"."""
    found = []
    for key in ("commandArgs", "environmentVariables", "platform", "inputs"):
        known = {json.dumps(part, sort_keys=True) for part in one.get(key) or ()}
        found += [
            f"{key}: {part}"
            for part in two.get(key) or ()
            if json.dumps(part, sort_keys=True) not in known
        ]
    return found or ["nothing that the log has"]


def test_differences_of_actions() -> None:
    one = {"commandArgs": ["a"], "inputs": [{"path": "x", "digest": "1"}]}
    two = {"commandArgs": ["a", "b"], "inputs": [{"path": "x", "digest": "2"}]}
    assert _differences(one, two) == ["commandArgs: b", "inputs: {'path': 'x', 'digest': '2'}"]
    assert _differences(one, one) == ["nothing that the log has"]
