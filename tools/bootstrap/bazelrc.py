"""The rc file that `bazelw` hands to Bazel, and what the user's own rc files say of modules."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bootstrap.versions import Version

# Options in these sections hold whatever `--config` is given.
_GENERAL_SECTIONS = frozenset(
    ("always", "common", "build", "test", "run", "query", "cquery", "aquery", "mod", "fetch")
)


@dataclass
class UserOptions:
    """What the user's rc files and command line say that bears on modules.

    Attributes:
        overrides: `--override_module`, name to directory.
        registries: `--registry`, in order.
        ignore_dev: whether `--ignore_dev_dependency` is set.
        inputs: the rc files that were read, or would have been.
    """

    overrides: dict[str, Path] = field(default_factory=dict)
    registries: list[str] = field(default_factory=list)
    ignore_dev: bool = False
    inputs: list[Path] = field(default_factory=list)

    def note(self, options: Iterable[str], workspace: Path) -> None:
        """Takes in options in Bazel's order: later ones win."""
        for option in options:
            flag, _, value = option.partition("=")
            if flag == "--override_module":
                name, _, path = value.partition("=")
                if path:
                    expanded = path.replace("%workspace%", str(workspace))
                    self.overrides[name] = workspace / expanded
                else:
                    self.overrides.pop(name, None)
            elif flag == "--registry" and value:
                self.registries.append(value)
            elif flag in ("--ignore_dev_dependency", "--noignore_dev_dependency"):
                self.ignore_dev = flag == "--ignore_dev_dependency" and value not in ("0", "false")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return []


def _note_file(path: Path, workspace: Path, result: UserOptions) -> None:
    if path in result.inputs:
        return
    result.inputs.append(path)
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.replace("\\\n", "").splitlines():
        words = _words(line)
        if len(words) == 2 and words[0] in ("import", "try-import"):
            _note_file(
                Path(words[1].replace("%workspace%", str(workspace))).expanduser(),
                workspace,
                result,
            )
        elif words and words[0] in _GENERAL_SECTIONS:
            result.note(words[1:], workspace)


def read_user_options(workspace: Path, home: Path | None, arguments: Sequence[str]) -> UserOptions:
    """Reads the rc files that Bazel will read besides ours, and the command line."""
    result = UserOptions()
    own = arguments[: arguments.index("--")] if "--" in arguments else list(arguments)
    ignore_all = "--ignore_all_rc_files" in own
    if not ignore_all and "--noworkspace_rc" not in own:
        _note_file(workspace / ".bazelrc", workspace, result)
    if not ignore_all and home is not None and "--nohome_rc" not in own:
        _note_file(home / ".bazelrc", workspace, result)
    if not ignore_all:
        for argument in own:
            if argument.startswith("--bazelrc=") and argument != "--bazelrc=/dev/null":
                _note_file(workspace / argument.partition("=")[2], workspace, result)
    result.note(own, workspace)
    return result


def _quoted(option: str) -> str:
    """An option as one word of an rc file."""
    return option if re.fullmatch(r"[\w=/.,:+~@%-]+", option) else shlex.quote(option)


def render(
    version: Version,
    overrides: Iterable[tuple[str, Path]],
    coverage_tools: Path,
    visible: Sequence[Path] = (),
) -> str:
    """The rc file for a Bazel that takes modules from Debian.

    Args:
        version: Bazel's.
        overrides: module names and directories.
        coverage_tools: stand-in for the tools that `bazel coverage` would download.
        visible: directories below /tmp, which the sandbox would hide.
    """
    lines = [
        "# Written by bazelw; it is written anew when needed.",
        "# The modules below lie on this machine only: a lock file must not name them.",
        "common --lockfile_mode=off",
    ]
    if version[0] < 9:
        lines += [
            "# Its WORKSPACE suffix would download rules_cc.",
            "common --noenable_workspace",
        ]
    for name, path in sorted(overrides):
        lines.append(f"common {_quoted(f'--override_module={name}={path}')}")
    mark = "~" if version[0] < 8 else "+"
    repository = f"bazel_tools{mark}remote_coverage_tools_extension{mark}remote_coverage_tools"
    lines.append(f"common {_quoted(f'--override_repository={repository}={coverage_tools}')}")
    lines += [f"build {_quoted(f'--sandbox_add_mount_pair={path}')}" for path in visible]
    return "\n".join(lines) + "\n"
