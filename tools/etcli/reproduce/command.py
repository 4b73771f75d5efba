"""`et reproduce`: builds targets twice, or three times, and compares all bytes."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink.container import sha256_of

from etcli import paths
from etcli.command import Outcome
from etcli.console import Printer
from etcli.files.explain import explain
from etcli.reproduce import checkout
from etcli.reproduce.build import Build, Output

# Mnemonics of the actions whose results could depend on a worker.
_WORKERS = ("EtBundleProgram", "EtExpect", "EtLower", "EtRecord")
_HASH_SEED = "4242"

# Differences of the second build, besides its paths and the number of jobs.
SECOND_FLAGS = (
    "--disk_cache=",
    "--remote_cache=",
    "--remote_executor=",
    "--noremote_accept_cached",
    f"--action_env=PYTHONHASHSEED={_HASH_SEED}",
    *(f"--strategy={name}=sandboxed,local" for name in _WORKERS),
)

# Folders that each action sees in a hermetic build, besides its inputs.
_SYSTEM = ("/bin", "/etc", "/lib", "/lib64", "/proc", "/sys", "/usr")

# Bazel's sandbox of Linux with this machine's system and nothing else: no home, no network.
HERMETIC_FLAGS = (
    "--spawn_strategy=sandboxed",
    "--experimental_use_hermetic_linux_sandbox",
    "--sandbox_default_allow_network=false",
    *(f"--sandbox_add_mount_pair={path}" for path in _SYSTEM if os.path.isdir(path)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.description = (
        "Builds targets twice: here, and in a copy of the checkout at another path, with another "
        "output base, hash seed and number of jobs, one process a lowering, and without caches. "
        "Compares every default output by sha256, and explains differences."
    )
    parser.add_argument("labels", nargs="+", help="targets or patterns: //models:all //x:app")
    parser.add_argument(
        "--hermetic",
        action="store_true",
        help="the second build's actions see their inputs and the system's folders, and have no "
        "network (Linux)",
    )
    parser.add_argument("--remote", metavar="URL", help="build once more, on this executor")
    parser.add_argument(
        "--bazel", help="Bazel's command; default: the workspace's bazelw, else bazel"
    )
    parser.add_argument(
        "--flag",
        action="append",
        default=[],
        help="a flag for all builds: --flag=--config=ci; may be repeated",
    )
    parser.add_argument(
        "--directory", metavar="DIR", help="folder for the copy and its output base"
    )
    parser.add_argument("--keep", action="store_true", help="keep the copies")


def command(options: argparse.Namespace) -> Outcome:
    """Builds and compares; exit code 1: the bytes differ."""
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", os.getcwd()))
    bazel = options.bazel or _bazel(workspace)
    folder = Path(tempfile.mkdtemp(prefix="reproduce-", dir=_large_folder(options.directory)))
    try:
        result = _run(_builds(workspace, bazel, folder, options), folder, options)
    finally:
        if options.keep:
            print(f"Kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    differ = any(result["differences"].values())
    return Outcome(result, lambda out: show(result, out), code=1 if differ else 0)


def _builds(workspace: Path, bazel: str, folder: Path, options: argparse.Namespace) -> list[Build]:
    """The builds to compare; the first one is the reference."""
    there = folder / "another" / "path" / workspace.name
    checkout.copy(workspace, there)
    common = tuple(options.flag)
    elsewhere = (*common, *checkout.module_flags(workspace))
    inner = str(there / "bazelw") if Path(bazel) == workspace / "bazelw" else bazel
    builds = [
        Build("here", workspace, bazel, None, common),
        Build(
            "elsewhere",
            there,
            inner,
            folder / "base",
            (*elsewhere, *SECOND_FLAGS, *(HERMETIC_FLAGS if options.hermetic else ()), "--jobs=1"),
        ),
    ]
    if options.remote:
        remote = (
            f"--remote_executor={options.remote}",
            "--noremote_accept_cached",
            "--remote_download_outputs=toplevel",
            "--spawn_strategy=remote,local",
            *(f"--strategy={name}=remote" for name in _WORKERS),
        )
        builds.append(Build("remote", there, inner, folder / "remote", (*elsewhere, *remote)))
    return builds


def _run(builds: Sequence[Build], folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    events = folder / "events.json"
    first, *others = builds
    expected = first.run(options.labels, events)
    if not expected:
        raise BuildError(f"{' '.join(options.labels)}: these targets have no outputs.")
    outputs = {
        name: {"label": output.label, "sha256": sha256_of(output.path)}
        for name, output in expected.items()
    }
    differences = {}
    for build in others:
        try:
            compared = compare(expected, build.run(options.labels, events))
        finally:
            if not options.keep:
                build.end()
        differences[build.title] = [dataclasses.asdict(difference) for difference in compared]
    return {"outputs": outputs, "differences": differences}


@dataclass(frozen=True)
class Difference:
    """An output that differs between two builds.

    Attributes:
      label: of the target.
      name: path of the output under the execution root.
      reasons: what differs, a line each; the first is the most telling.
    """

    label: str
    name: str
    reasons: tuple[str, ...]


def compare(first: Mapping[str, Output], second: Mapping[str, Output]) -> list[Difference]:
    """Compares two builds' outputs, by their paths, by sha256; explains differences."""
    differences = []
    for name in sorted({*first, *second}):
        if name not in first or name not in second:
            which, build = ("first", first) if name in first else ("second", second)
            reasons = (f"only the {which} build has it",)
            differences.append(Difference(build[name].label, name, reasons))
        elif sha256_of(first[name].path) != sha256_of(second[name].path):
            reasons = tuple(explain(first[name].path, second[name].path))
            differences.append(Difference(first[name].label, name, reasons))
    return differences


def show(result: Mapping[str, Any], out: Printer) -> None:
    """Prints a line for each output, and differences with their reasons."""
    outputs, differences = result["outputs"], result["differences"]
    changed = {difference["name"] for each in differences.values() for difference in each}
    for name, output in sorted(outputs.items()):
        if name not in changed:
            out.line(f"same       {output['sha256'][:16]}  {output['label']}  {name}")
    for title, each in differences.items():
        for difference in each:
            out.line(f"different  ({title})  {difference['label']}  {difference['name']}", "red")
            for reason in difference["reasons"]:
                out.line(f"    {reason}")
    same = len(set(outputs) - changed)
    builds = len(differences) + 1
    out.line(f"{same} of {len(outputs)} outputs are the same bytes in {builds} builds.")


def _bazel(workspace: Path) -> str:
    wrapper = workspace / "bazelw"
    if wrapper.exists():
        return str(wrapper)
    for name in ("bazel", "bazelisk"):
        if path := shutil.which(name):
            return path
    raise BuildError(
        "Bazel not found: neither bazelw in the workspace, nor on PATH.", "Give --bazel."
    )


def _large_folder(directory: str) -> Path:
    """A folder for large files: not in memory, as /tmp may be."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    own = cache / "rules_executorch" / "reproduce"
    folder = (paths.written(directory) if directory else own).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
