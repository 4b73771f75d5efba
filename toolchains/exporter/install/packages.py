"""Installs the packages of locks with pip, without what prune.toml leaves out.

torch comes from where a CPU build is: the lock has no hash of the registry's CUDA build for Linux.
pip's own settings come first: a machine may have a CPU build already (a mirror, find-links), and an
index that cannot be reached costs minutes of retries. The question is `pip index versions`, as any
that reads metadata may download half a gigabyte to answer it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote

from . import prune
from .errors import InstallError
from .locks import Requirement, canonical
from .pip_tool import Pip, explain

# "Downloading X.whl (191.8 MB)", "Using cached X.whl (…)", "Processing /folder/X.whl (from …)"
_FILE = re.compile(
    r"\s*(?:Downloading|Using cached|Processing)\s+(?:\S*/)?([\w.]+)-([^-\s]+)(?:-\d[^-\s]*)?"
    r"(?:-[^-\s]+){3}\.whl\s*((?:\(\d[\d.]* [kMG]?B\))?)\s*(?:\(from .*)?"
)
_OPTIONS = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--no-compile"]


@dataclass(frozen=True)
class Source:
    """Options for pip, the reason for them, and what else to do if torch is not found that way."""

    options: tuple[str, ...] = ()
    reason: str = ""
    hint: str = ""


@dataclass
class Installed:
    """What was installed: versions by package, console programs, and other programs' files."""

    versions: dict[str, str] = field(default_factory=dict)
    entry_points: dict[str, str] = field(default_factory=dict)
    programs: dict[str, Path] = field(default_factory=dict)


def torch_source(version: str, answer: str, sys_platform: str, index: str) -> Source:
    """Chooses where a version of torch ("2.13.0", "2.13.0+cpu") comes from.

    Args:
      answer: of `pip index versions`, which has the versions that pip's own settings offer.
      sys_platform: of the machine that torch is for, as in `sys.platform`.
      index: URL of an index of CPU builds; empty: none.
    """
    listed = re.search(r"^Available versions:(.*)$", answer, re.MULTILINE)
    available = re.findall(r"[^\s,]+", listed[1]) if listed else []
    release, _, local = version.partition("+")
    builds = [v for v in available if v.partition("+")[0] == release]
    cpu = [v for v in builds if v.partition("+")[2].startswith("cpu") or (local and v == version)]
    if cpu:
        return Source(reason=f"pip's own settings offer {cpu[0]}")
    if sys_platform == "darwin" and builds:
        return Source(reason="the registry's build for macOS is a CPU build")
    if not index:
        hint = "Or name an index of CPU builds in `torch_index`: the lock has no CUDA build."
        return Source(reason="pip's own settings only, as there is no `torch_index`", hint=hint)
    offer = ", ".join(builds) or f"no torch {release}"
    return Source(
        ("--index-url", index),
        f"pip's own settings offer {offer}; using {index}",
        "If this index cannot be reached from here, name a mirror in `torch_index`.",
    )


def install(
    pip: Pip, requirements: Mapping[str, Requirement], torch_index: str, output: Path
) -> Installed:
    """Installs packages into the new folder `output`; programs stay in pip's temporary folder."""
    seen: set[str] = set()

    def on_line(line: str) -> None:
        if line.startswith("Installing collected packages"):
            print("unpacking", file=sys.stderr, flush=True)
        match = _FILE.fullmatch(line)
        if match and canonical(match[1]) not in seen:
            seen.add(canonical(match[1]))
            text = f"[{len(seen)}/{len(requirements)}] {canonical(match[1])} {unquote(match[2])}"
            print(f"{text} {match[3]}".rstrip(), file=sys.stderr, flush=True)

    folders = []
    others = [requirement for name, requirement in requirements.items() if name != "torch"]
    if torch := requirements.get("torch"):
        source = Source(reason="Bazel downloaded it")
        if not torch.hashes & pip.files.keys():
            answer = pip.run(["index", "versions", "--only-binary=:all:", "torch"])[1]
            source = torch_source(torch.version, answer, sys.platform, torch_index)
        print(f"torch {torch.version}: {source.reason}", file=sys.stderr, flush=True)
        folders.append(pip_install(pip, [torch], source, on_line))
    if others:
        folders.append(pip_install(pip, others, on_line=on_line))
    return collect(folders, output, prune.load("site-packages"))


def pip_install(
    pip: Pip,
    requirements: Sequence[Requirement],
    source: Source = Source(),  # noqa: B008  (frozen)
    on_line: Callable[[str], None] = lambda line: None,
) -> Path:
    """Has pip install packages; returns their folder, in pip's temporary one."""
    folder = Path(tempfile.mkdtemp(dir=pip.scratch))
    lock, target = folder / "lock.txt", folder / "installed"
    lock.write_text("".join(r.line(pip.files) for r in requirements), encoding="utf-8")
    arguments = ["install", *_OPTIONS, "--target", str(target), "--requirement", str(lock)]
    code, output = pip.run([*arguments, *source.options], on_line)
    if code:
        what = requirements[0].name if len(requirements) == 1 else f"{len(requirements)} packages"
        raise explain(output, " ".join([f"pip install of {what}", *source.options]), source.hint)
    return target


def collect(folders: Sequence[Path], output: Path, pruning: prune.Pruning) -> Installed:
    """Moves what stays of pip's folders to the new folder `output`, with modes 755 and 644."""
    installed = Installed()
    owners: dict[str, tuple[str, object]] = {}
    pairs = [(folder, d) for folder in folders for d in metadata.distributions(path=[str(folder)])]
    for folder, distribution in sorted(pairs, key=lambda pair: pair[1].name):
        package = canonical(distribution.name)
        installed.versions[package] = distribution.version
        for point in distribution.entry_points.select(group="console_scripts"):
            installed.entry_points[point.name] = point.value
        for file in distribution.files or ():
            path = str(file)
            if path.startswith("../../bin/"):
                installed.programs[file.name] = folder / "bin" / file.name
            if file.is_absolute() or ".." in file.parts or not pruning.keeps(path, package):
                continue
            sha256 = file.hash and file.hash.value
            owner, other = owners.setdefault(path, (package, sha256))
            if owner != package and (sha256 is None or sha256 != other):
                raise InstallError(
                    f"site-packages/{path}: two packages have different files at this path: got "
                    f"{owner} and {package}, expected one owner. Leave one of the packages out of "
                    "the locks, or the path in prune.toml."
                )
            source, target = folder / path, output / path
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.chmod(0o755 if source.stat().st_mode & 0o111 else 0o644)
                source.replace(target)
    return installed
