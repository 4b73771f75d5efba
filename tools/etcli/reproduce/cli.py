"""Builds targets twice, or three times, and says whether the outputs are the same bytes."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from etcli.reproduce import checkout
from etcli.reproduce.build import Build, BuildFailed, Output
from etcli.reproduce.compare import Difference, compare, sha256

# What these rules' actions are called whose results could depend on a worker.
_WORKERS = ("EtBundleProgram", "EtExport", "EtLower", "EtRecord")
_HASH_SEED = "4242"

# What is different in the second build, besides its places and the number of jobs.
SECOND_FLAGS = (
    "--disk_cache=",
    "--remote_cache=",
    "--remote_executor=",
    "--noremote_accept_cached",
    f"--action_env=PYTHONHASHSEED={_HASH_SEED}",
    *(f"--strategy={name}=sandboxed,local" for name in _WORKERS),
)

# What each action may see in a hermetic build, besides its inputs.
_SYSTEM = ("/bin", "/etc", "/lib", "/lib64", "/proc", "/sys", "/usr")

# Bazel's sandbox of Linux with nothing of this machine but its system: no home, no network.
HERMETIC_FLAGS = (
    "--spawn_strategy=sandboxed",
    "--experimental_use_hermetic_linux_sandbox",
    "--sandbox_default_allow_network=false",
    *(f"--sandbox_add_mount_pair={place}" for place in _SYSTEM if os.path.isdir(place)),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Builds, compares, prints.

    Returns:
      0: the same bytes; 1: differences; 2: a build failed, or the command line is wrong.
    """
    options = _parser().parse_args(arguments)
    workspace = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", os.getcwd()))
    bazel = options.bazel or _bazel(workspace)
    folder = Path(tempfile.mkdtemp(prefix="reproduce-", dir=_place(options.directory)))
    try:
        builds = _builds(workspace, bazel, folder, options)
        return _run(builds, folder, options)
    except BuildFailed as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        if options.keep:
            print(f"Kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reproduce",
        description="Builds targets twice: here, and in a copy of the checkout at another path, "
        "with another output base, hash seed and number of jobs, one process a lowering, and "
        "without caches. Compares every default output by sha256, and explains differences.",
    )
    parser.add_argument("labels", nargs="+", help="targets, patterns too: //models:all //x:app")
    parser.add_argument(
        "--hermetic",
        action="store_true",
        help="the second build's actions see their inputs and the system's folders, and have no "
        "network (Linux)",
    )
    parser.add_argument("--remote", metavar="URL", help="build once more, on this executor")
    parser.add_argument("--bazel", help="command; default: the workspace's bazelw, else bazel")
    parser.add_argument(
        "--flag", action="append", default=[], help="of all builds, e.g. --flag=--config=ci"
    )
    parser.add_argument("--directory", type=Path, help="for the copy and its output base")
    parser.add_argument("--keep", action="store_true", help="leave the copies for a closer look")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there, too")
    return parser


def _builds(workspace: Path, bazel: str, folder: Path, options: argparse.Namespace) -> list[Build]:
    """The builds to compare; the first is the one that others are measured by."""
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


def _run(builds: Sequence[Build], folder: Path, options: argparse.Namespace) -> int:
    first, *others = builds
    print(f'Building "{first.title}" …', flush=True)
    wanted = first.run(options.labels, folder / "events.json")
    if not wanted:
        raise BuildFailed(f"{' '.join(options.labels)}: these targets have no outputs.")
    hashes = {name: sha256(output.path) for name, output in wanted.items()}
    differences: dict[str, list[Difference]] = {}
    for build in others:
        print(f'Building "{build.title}" …', flush=True)
        try:
            found = build.run(options.labels, folder / "events.json")
            differences[build.title] = compare(wanted, found)
        finally:
            if not options.keep:
                build.end()
    _print(wanted, hashes, differences)
    if options.json:
        _write(options.json, wanted, hashes, differences)
    return 1 if any(differences.values()) else 0


def _print(
    wanted: dict[str, Output], hashes: dict[str, str], found: dict[str, list[Difference]]
) -> None:
    changed = {difference.name for each in found.values() for difference in each}
    for name, output in sorted(wanted.items()):
        if name not in changed:
            print(f"same       {hashes[name][:16]}  {output.label}  {name}")
    for title, each in found.items():
        for difference in each:
            print(f"different  ({title})  {difference.label}  {difference.name}")
            for line in difference.reasons:
                print(f"    {line}")
    same = len(wanted) - len(changed & set(wanted))
    print(f"{same} of {len(wanted)} outputs are the same bytes in {len(found) + 1} builds.")


def _write(
    path: Path,
    wanted: dict[str, Output],
    hashes: dict[str, str],
    found: dict[str, list[Difference]],
) -> None:
    result = {
        "outputs": {n: {"label": o.label, "sha256": hashes[n]} for n, o in sorted(wanted.items())},
        "differences": {
            title: [dataclasses.asdict(difference) for difference in each]
            for title, each in found.items()
        },
    }
    path.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _bazel(workspace: Path) -> str:
    wrapper = workspace / "bazelw"
    if wrapper.exists():
        return str(wrapper)
    for name in ("bazel", "bazelisk"):
        if path := shutil.which(name):
            return path
    raise SystemExit("There is neither bazelw in the workspace nor bazel on PATH; give --bazel.")


def _place(directory: Path | None) -> Path:
    """Where large folders may lie: not in memory, as /tmp may."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = (directory or cache / "rules_executorch" / "reproduce").absolute()
    place.mkdir(parents=True, exist_ok=True)
    return place
