"""Programs in ExecuTorch's runtime, by the C interface (executorch_app.h): the one way to run them.

The library with that interface has the whole runtime of this machine. What it lacks comes from
libraries that register backends and operators when they are loaded: those that packages declare
(`et_packages(libraries = …)`), and upstream's operators of language models, which are linked with
torch. The latter are loaded only for a program that uses them, as torch takes its time. Emulators
answer in Python for a device that is not here (`emulated.py`).

Errors of the interface become BuildErrors. A crash ends the process: `process.ask` starts another.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from etbuild.errors import BuildError
from etbuild.operator_versions import VULKAN, is_older
from etlink import payload_operators, pte, tables
from etlink.process import ROOTS
from runner import emulated
from runner.api import executorch_app
from runner.api.executorch_app import AppError

# What packages declare, joined by colons; set by the scripts that start programs: libraries, and
# Python modules that run backends or operators in a device's place.
LIBRARIES = "ET_RUNTIME_LIBRARIES"
# The library of another platform's runtime that runs programs in place of this machine's, and those
# that it needs first.
RUNTIME = "ET_RUNTIME"
PRELOADS = "ET_RUNTIME_PRELOADS"
EMULATORS = "ET_EMULATORS"
_WITH_TORCH = "executorch/extension/llm/custom_ops/libcustom_ops_aot_lib"


class Program:
    """An opened program, with one state: its methods keep what they keep between runs.

    Args:
      path: the .pte file.
      data: its data files, if they are not those of the manifest, beside it.
      manifest: all bytes are checked against it; None: `<name>.manifest.json` beside the program,
        if it exists.
      name: for messages; default: the file's name.
      events: whether runs record events (ETDump), which slows them down.
      library: the library of another runtime; None: this machine's.

    Raises:
      BuildError: a file is missing, damaged or another one than the program was built with; or the
        runtime cannot load the program.

    Example:

        with Program(Path("net.pte")) as program:
            [output] = program.run("forward", [np.ones((1, 64), "float32")])
    """

    def __init__(
        self,
        path: Path,
        data: Sequence[Path] = (),
        manifest: Path | None = None,
        *,
        name: str = "",
        events: bool = False,
        library: Path | None = None,
    ) -> None:
        self.name = name or path.name
        library = library or emulated_library()
        if library is None:
            load_libraries()
        with _as_build_errors(self.name):
            self._app = executorch_app.App(
                path,
                library=library,
                manifest=manifest,
                data=data,
                verify=manifest is not None,
            )
            self._session = self._app.session(records_events=events)

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees its memory."""
        self._app.close()

    @property
    def method_names(self) -> list[str]:
        """Returns the names of all methods, constant ones too."""
        return self._session.methods

    def describe(self, method: str) -> executorch_app.Method:
        """Describes a method, with the largest shapes that it takes."""
        with _as_build_errors(self.name):
            return self._session.describe(method)

    def load(self, method: str) -> None:
        """Loads a method before it first runs."""
        with _as_build_errors(self.name):
            self._session.load(method)

    def run(self, method: str, inputs: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
        """Runs a method.

        Args:
          method: its name.
          inputs: flat; numbers are arrays without dimensions, bfloat16 is its bits (uint16).

        Returns:
          Its outputs, flat, in the same form; `last_run` has their kinds and types.

        Raises:
          BuildError: the runtime failed, e.g. on inputs of other shapes.
        """
        with _as_build_errors(self.name):
            return self._session.run(inputs, method)

    def constant(self, name: str) -> list[Any]:
        """Returns the numbers of a method without inputs."""
        return [output.item() for output in self.run(name)]

    @property
    def last_run(self) -> executorch_app.Method:
        """Describes the last run."""
        return self._session.last_run

    @property
    def last_run_seconds(self) -> float:
        """Returns the time of the last run, without copies of inputs and outputs."""
        return self._session.last_run_ms / 1000

    def reset(self) -> None:
        """Gives all state its initial values."""
        with _as_build_errors(self.name):
            self._session.reset()

    def generate(self, tokens: Sequence[int], max_new_tokens: int) -> executorch_app.Answer:
        """Lets a language model continue tokens with the most likely ones, from an empty cache."""
        with _as_build_errors(self.name):
            return self._session.generate(tokens, max_new_tokens)

    def wrap_runs(self, wrap: Callable[[Callable[..., int]], Callable[..., int]]) -> None:
        """Puts a function around the C function of runs, so that counters exclude Python's work."""
        library = self._app._library._library
        library.executorch_app_run = wrap(library.executorch_app_run)

    def write_events(self, path: Path) -> bool:
        """Writes the events of all runs so far as an ETDump file.

        Returns:
          Whether there are any: a runtime may be built without them.
        """
        try:
            self._session.write_events(path)
        except AppError:
            return False
        return True


def verify(path: Path, manifest: Path, data: Sequence[Path] = ()) -> None:
    """Checks every byte of a program and of the data files that it loads; loads nothing.

    Args:
      path: the .pte file.
      manifest: of the program, or of an app that has it.
      data: its data files in any order; none: the manifest's.

    Raises:
      BuildError: a file is missing, damaged, or not the one that the program was built with.
    """
    try:
        options = {"manifest": manifest, "data": data, "verify": True, "weight_cache": False}
        executorch_app.App(path, **options).close()
    except AppError as error:
        raise BuildError(str(error)) from error


def info(library: Path | None = None) -> dict[str, Any]:
    """Reads what a runtime has.

    Args:
      library: of another runtime; None: this machine's.

    Returns:
      "version", "backends" and "operators".
    """
    library = library or emulated_library()
    # Another runtime has libraries of the same names.
    if library is None:
        load_libraries()
    return executorch_app.runtime_info(library)


def missing(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Compares what a program needs with this machine's runtime, and what it can load.

    Args:
      needs: its "backends" and "operators".

    Returns:
      "missing_backends" and "missing_operators".
    """
    found = _missing(needs, None)
    is_emulated = emulated_library() is not None
    if found["missing_operators"] and not is_emulated and _load_operators_with_torch():
        found = _missing(needs, None)
    return found


def check_needs(program: pte.ProgramFile, name: str, library: Path | None = None) -> None:
    """Loads what a program needs beside the library.

    Args:
      program: the file, read.
      name: for messages.
      library: of another runtime, which loads nothing more; None: this machine's.

    Raises:
      BuildError: nothing here has a backend or an operator of it.
    """
    library = library or emulated_library()
    missing_here = lacks(program, library)
    if missing_here:
        raise BuildError(
            f"{name}: the runtime of ExecuTorch {info(library)['version']} on this machine lacks "
            f"{', '.join(missing_here)}.",
            "Run it in an app for a platform whose runtime has them, which et_runner_app checks; "
            "or declare the library that registers them: et_packages(libraries = …).",
        )


def lacks(program: pte.ProgramFile, library: Path | None = None) -> list[str]:
    """Lists backends and operators of a program that nothing here has.

    Args:
      program: the file, read.
      library: of another runtime; None: this machine's, which loads what it can.
    """
    methods = list(tables.describe_methods(program.program))
    needs = {
        kind: sorted({name for method in methods for name in method[kind]})
        for kind in ("backends", "operators")
    }
    library = library or emulated_library()
    found = _missing(needs, library) if library else missing(needs)
    has_vulkan = "VulkanBackend" in needs["backends"]
    newer = _newer(program, info(library)["version"]) if has_vulkan else []
    return [*found["missing_backends"], *found["missing_operators"], *newer]


def _newer(program: pte.ProgramFile, version: str) -> list[str]:
    """Operators of Vulkan's payloads that a version lacks, which would end the process."""
    names = {
        name
        for delegate in payload_operators.delegates(program, {"VulkanBackend"})
        for name in payload_operators.operators_of(delegate)
    }
    lacking = [name for name in sorted(names & VULKAN.keys()) if is_older(version, VULKAN[name])]
    return [f"{name} of Vulkan (ExecuTorch {VULKAN[name]} has it)" for name in lacking]


def emulated_library() -> Path | None:
    """Returns the library that runs programs in place of this machine's; None: this machine's does.

    Raises:
      BuildError: what it needs cannot be loaded.
    """
    path = os.environ.get(RUNTIME)
    if not path:
        return None
    for preload in filter(None, os.environ.get(PRELOADS, "").split(os.pathsep)):
        try:
            ctypes.CDLL(preload, ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise BuildError(
                f"{preload}: a library that {Path(path).name} needs cannot be loaded: {error}.",
                "Run it on Linux on x86_64, with glibc 2.36 or newer.",
            ) from error
    return Path(path)


def load_libraries() -> None:
    """Loads the libraries that packages declare; each once.

    Raises:
      BuildError: one cannot be loaded.
    """
    # They are linked with the runtime, whose own library must be loaded first.
    executorch_app.runtime_info()
    for path in filter(None, os.environ.get(LIBRARIES, "").split(os.pathsep)):
        try:
            ctypes.CDLL(path)
        except OSError as error:
            raise BuildError(
                f"{path}: the library of a backend cannot be loaded: {error}.",
                "Name the folders of what it needs in et_packages(library_paths = …).",
            ) from error
    for name in filter(None, os.environ.get(EMULATORS, "").split(os.pathsep)):
        _install_emulator(name)


@functools.cache
def _install_emulator(name: str) -> None:
    try:
        importlib.import_module(name).install()
    except BuildError:
        raise
    except Exception as error:
        raise BuildError(
            f"the emulator {name} cannot be installed: {type(error).__name__}: {error}.",
            "It is a Python module of et_packages(emulators = …), with a function install().",
        ) from error


def _missing(needs: Mapping[str, Sequence[str]], library: Path | None) -> dict[str, list[str]]:
    has = info(library)
    kinds = ("backends", "operators")
    return {f"missing_{kind}": sorted(set(needs[kind]) - set(has[kind])) for kind in kinds}


def _load_operators_with_torch() -> bool:
    for root in (*os.environ.get(ROOTS, "").split(os.pathsep), *sys.path):
        for suffix in (".so", ".dylib"):
            path = Path(root, _WITH_TORCH + suffix)
            if path.is_file():
                ctypes.CDLL(str(path))
                return True
    return False


@contextlib.contextmanager
def _as_build_errors(name: str) -> Iterator[None]:
    try:
        yield
    except AppError as error:
        failure = emulated.take_failure()
        if failure:
            raise BuildError(f"{name}: {failure.what}", failure.hint) from failure.__cause__
        raise BuildError(f"{name}: {error}" if name not in str(error) else str(error)) from error
