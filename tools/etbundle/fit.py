"""EtFit: checks that a runtime has all that programs use, and chooses the libraries to link.

Contract: `etbundle.fit --label APP --runtime LABEL --platform P --runtime_version V
--program LABEL FILE.pte SUMMARY.json … --core|--library|--always|--kernels LABEL FILE SCAN DEPS …
[--header program.h] --fit OUT.json --link_flags OUT.params`
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError, listed
from etlink.container import REBUILD, write_text
from etlink.json_file import read_object, write_json

from etbundle import library as libraries
from etbundle.inventory import newest_schema
from etbundle.library import Library
from etbundle.needs import Need, Use, uses_of
from etbundle.payload_names import first_version

# A library that registers itself when loaded has no symbol that is called, so linkers would drop
# it. Mach-O linkers keep every shared library that they are given.
_KEEP_SHARED = ("-Wl,--push-state,--no-as-needed", "-Wl,--pop-state")
_KEEP_STATIC = ("-Wl,--push-state,--whole-archive", "-Wl,--pop-state")


@dataclass(frozen=True)
class Runtime:
    """A runtime that an app may be linked with.

    Attributes:
        label: target that gives it.
        platform: its name.
        version: of ExecuTorch.
        core: the library that runs programs.
        choice: libraries that an app gets if it needs them, preferred ones first.
        always: libraries that every app gets.
        kernels: the app's own libraries of operators.
        newest_schema: newest version of a program's schema that it reads; None: unknown.
    """

    label: str
    platform: str
    version: str
    core: Library
    choice: tuple[Library, ...]
    always: tuple[Library, ...] = ()
    kernels: tuple[Library, ...] = ()
    newest_schema: int | None = None

    def __str__(self) -> str:
        """For messages."""
        return f"{self.label} ({self.platform}, ExecuTorch {self.version})"


def choose(app: str, runtime: Runtime, uses: Sequence[Use]) -> list[Library]:
    """The libraries that an app needs, each after the ones that it depends on.

    Args:
        app: label, for messages.
        runtime: with the libraries to choose from.
        uses: of all of its programs.

    Raises:
        BuildError: an operator or a backend is in none of them; an operator is in two.
    """
    chosen = [runtime.core, *runtime.always, *runtime.kernels]
    # Backends of all methods first: their libraries may register operators, too.
    needs = sorted((need for use in uses for need in use.needs()), key=lambda need: need.kind)
    for need in needs:
        if not any(map(need.is_met_by, chosen)):
            chosen.append(_library_of(app, runtime, need))
    _check_once(app, chosen)
    return _with_deps(chosen, [runtime.core, *runtime.choice, *runtime.always])


def check_schema(app: str, runtime: Runtime, uses: Sequence[Use]) -> None:
    """Fails where a program's tables have a newer schema than the runtime reads.

    Args:
        app: label, for messages.
        runtime: that is to load the programs.
        uses: of all of them.

    Raises:
        BuildError: the runtime would misread such a program, or refuse it on the device.
    """
    newest = runtime.newest_schema
    for use in uses:
        if newest is not None and use.schema_version > newest:
            raise BuildError(
                f"{app}: schema version of {use.program}: got {use.schema_version}, expected at "
                f"most {newest}, as the runtime {runtime} reads no newer one.",
                "Use a newer runtime (executorch.runtime in MODULE.bazel, et_runtime_import), or "
                "an older exporter (executorch.exporter).",
            )


def _library_of(app: str, runtime: Runtime, need: Need) -> Library:
    for library in runtime.choice:
        if need.is_met_by(library):
            return library
    known = (runtime.core, *runtime.choice, *runtime.kernels)
    if need.kind == "backend":
        raise BuildError(
            f"{app}: {need}, but the runtime {runtime} does not have it. Available: "
            f"{listed(sorted(b for library in known for b in library.backends))}.",
            "Use a recipe for a backend that the runtime has, or a runtime with that backend "
            "(et_runtime_import).",
        )
    if need.kind == "payload_operator":
        version = first_version(need.backend, need.name)
        raise BuildError(
            f"{app}: {need}, but the backend of the runtime {runtime} does not have it. "
            + (
                f"ExecuTorch {version} is the first that has it."
                if version
                else "No known version of ExecuTorch has it."
            ),
            "Use a runtime that has it (executorch.runtime in MODULE.bazel, et_runtime_import). Or "
            "leave it to ExecuTorch's own kernels: the option "
            f'runtime = "{runtime.version}" of the recipe.',
        )
    operators = sorted({o for library in known for o in library.operators})
    near = difflib.get_close_matches(need.name, operators, n=3, cutoff=0.8)
    raise BuildError(
        f"{app}: {need}, but no library of the runtime {runtime} registers it"
        f"{'. Similar ones: ' + ', '.join(near) if near else ''}.",
        "Give a cc_library that registers it in kernels, use a runtime that has it "
        "(et_runtime_import), or a recipe that delegates or decomposes it.",
    )


def _check_once(app: str, chosen: Sequence[Library]) -> None:
    owner: dict[str, Library] = {}
    for library in chosen:
        twice = sorted(o for o in library.operators if owner.setdefault(o, library) is not library)
        if twice:
            first = owner[twice[0]]
            raise BuildError(
                f"{app}: {first.label} and {library.label} both register {listed(twice)}, but "
                "ExecuTorch ends a process that registers an operator twice.",
                "Leave one of them out of kernels, or out of the runtime's libraries.",
            )


def _with_deps(chosen: Iterable[Library], known: Iterable[Library]) -> list[Library]:
    by_label = {library.label: library for library in known}
    ordered: dict[str, Library] = {}

    def add(library: Library) -> None:
        if library.label in ordered:
            return
        for dep in library.deps:
            add(by_label[dep])
        ordered[library.label] = library

    for library in chosen:
        add(library)
    return list(ordered.values())


def link_flags(chosen: Sequence[Library], macho: bool) -> list[str]:
    """Arguments of the linker for a runtime's libraries.

    Args:
        chosen: the libraries.
        macho: whether it is a linker for Apple's platforms.
    """
    flags: list[str] = []
    plain = [library for library in chosen if library.static and not library.registers]
    for library in chosen:
        if library in plain:
            continue
        if macho:
            flags.append(f"-Wl,-force_load,{library.path}" if library.static else library.path)
        else:
            before, after = _KEEP_STATIC if library.static else _KEEP_SHARED
            flags += [before, library.path, after]
    paths = [library.path for library in plain]
    # They may depend on each other in a circle, which only Mach-O linkers resolve by themselves.
    if paths and not macho:
        paths = ["-Wl,--start-group", *paths, "-Wl,--end-group"]
    return flags + paths


def by_program(uses: Iterable[Use]) -> dict[str, dict[str, Any]]:
    """Program to method to what it needs, for JSON."""
    programs: dict[str, dict[str, Any]] = {}
    for use in uses:
        programs.setdefault(use.program, {})[use.method] = {
            "operators": list(use.operators),
            "backends": list(use.backends),
        }
    return programs


def describe(
    app: str, runtime: Runtime, uses: Sequence[Use], chosen: Sequence[Library]
) -> dict[str, Any]:
    """The output of EtFit, as one JSON object."""
    used = {
        "operators": frozenset(o for use in uses for o in use.operators),
        "backends": frozenset(b for use in uses for b in use.backends),
    }
    return {
        "format": 1,
        "label": app,
        "platform": runtime.platform,
        "runtime": {"label": runtime.label, "executorch_version": runtime.version},
        "programs": by_program(uses),
        "libraries": [libraries.describe(library, used) for library in chosen],
    }


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtFit."""
    parser = ToolParser(prog="etbundle.fit", description=__doc__)
    for name in ("label", "runtime", "platform", "runtime_version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--program", nargs=3, action="append", default=[])
    for role in ("core", "library", "always", "kernels"):
        parser.add_argument(f"--{role}", nargs=4, action="append", default=[])
    parser.add_argument("--header", type=Path, help="the runtime's program.h")
    parser.add_argument("--fit", type=Path, required=True, help="JSON to write")
    parser.add_argument("--link_flags", type=Path, required=True, help="linker arguments to write")
    args = parser.parse_args(arguments)
    runtime = Runtime(
        args.runtime,
        args.platform,
        args.runtime_version,
        *_libraries(args.core),
        choice=_libraries(args.library),
        always=_libraries(args.always),
        kernels=_libraries(args.kernels),
        newest_schema=newest_schema(args.header.read_text(encoding="utf-8"))
        if args.header
        else None,
    )
    uses = [
        use
        for label, path, summary in args.program
        for use in uses_of(label, Path(path), _layers(Path(summary)))
    ]
    check_schema(args.label, runtime, uses)
    chosen = choose(args.label, runtime, uses)
    macho = args.platform.startswith(("ios_", "macos_"))
    # The app's own kernels are linked as its deps.
    own = {library.label for library in runtime.kernels}
    linked = [library for library in chosen if library.label not in own]
    write_json(args.fit, describe(args.label, runtime, uses, chosen))
    _write_flags(args.link_flags, link_flags(linked, macho))


def _layers(summary: Path) -> Mapping[str, Mapping[str, Sequence[str]]]:
    """The layers of delegated operators, by method."""
    return read_object(summary, "is not a summary of a program", REBUILD)["delegated_layers"]


def _write_flags(path: Path, flags: Sequence[str]) -> None:
    # A response file: white space, quotes and backslashes of paths are escaped.
    escaped = (re.sub(r"""([\s"'\\])""", r"\\\1", flag) for flag in flags)
    write_text(path, "".join(f"{flag}\n" for flag in escaped))


def _libraries(arguments: Sequence[Sequence[str]]) -> tuple[Library, ...]:
    return tuple(
        libraries.read(label, path, Path(scan), tuple(deps.split("\n")) if deps else ())
        for label, path, scan, deps in arguments
    )


if __name__ == "__main__":
    sys.exit(main())
