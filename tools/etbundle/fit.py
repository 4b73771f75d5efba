"""EtFit: whether a runtime has all that programs use, and which of its libraries an app needs.

Contract: `etbundle.fit --label APP --runtime LABEL --platform P --runtime_version V
--program LABEL FILE.pte … --core|--library|--always|--kernels LABEL FILE SCAN.json DEPS …
--static LABEL KEPT.a REST.a … --fit OUT.json --link_flags OUT.params
--whole_link_flags OUT.params`
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import exit_code
from etbuild.errors import BuildError
from etlink import pte, tables
from etlink.container import write_text

from etbundle import library as libraries
from etbundle import static_library
from etbundle.library import Library
from etbundle.select import Selected, select

# What registers itself as it is loaded has no symbol that is called. Mach-O linkers keep every
# shared library that they are given.
_KEEP_SHARED = ("-Wl,--push-state,--no-as-needed", "-Wl,--pop-state")
_KEEP_STATIC = ("-Wl,--push-state,--whole-archive", "-Wl,--pop-state")


@dataclass(frozen=True)
class Use:
    """What one method of a program needs of a runtime.

    Attributes:
        program: label.
        method: name.
        operators: names with overloads ("aten::add.out").
        backends: names of backends that it delegates to.
    """

    program: str
    method: str
    operators: tuple[str, ...]
    backends: tuple[str, ...]


@dataclass(frozen=True)
class Runtime:
    """A runtime that an app may be linked with.

    Attributes:
        label: target that gives it.
        platform: its name.
        version: of ExecuTorch.
        core: the library that runs programs.
        choice: libraries of which an app gets those that it needs, preferred ones first.
        always: libraries that every app gets.
        kernels: the app's own libraries of operators.
    """

    label: str
    platform: str
    version: str
    core: Library
    choice: tuple[Library, ...]
    always: tuple[Library, ...] = ()
    kernels: tuple[Library, ...] = ()

    def __str__(self) -> str:
        """For messages."""
        return f"{self.label} ({self.platform}, ExecuTorch {self.version})"


def uses_of(label: str, program: Path) -> list[Use]:
    """What the methods of a .pte file need.

    Raises:
        BuildError: it is no program, or damaged.
    """
    methods = tables.describe_methods(pte.read(program).program)
    return [Use(label, m["name"], tuple(m["operators"]), tuple(m["backends"])) for m in methods]


def choose(app: str, runtime: Runtime, uses: Sequence[Use]) -> list[Library]:
    """The libraries that an app needs, each after the ones that it depends on.

    Args:
        app: label, for messages.
        runtime: what there is to choose from.
        uses: of all of its programs.

    Raises:
        BuildError: an operator or a backend is in none of them; an operator is in two.
    """
    chosen = [runtime.core, *runtime.always, *runtime.kernels]
    for use in uses:
        for backend in use.backends:
            if not any(backend in one.backends for one in chosen):
                chosen.append(_with_backend(app, runtime, use, backend))
    for use in uses:
        for operator in use.operators:
            if not any(operator in one.operators for one in chosen):
                chosen.append(_with_operator(app, runtime, use, operator))
    _check_once(app, chosen)
    return _with_deps(chosen, [runtime.core, *runtime.choice, *runtime.always])


def _with_backend(app: str, runtime: Runtime, use: Use, backend: str) -> Library:
    for one in runtime.choice:
        if backend in one.backends:
            return one
    have = sorted(b for one in (runtime.core, *runtime.choice) for b in one.backends)
    raise BuildError(
        f'{app}: {use.program} delegates to the backend "{backend}" in its method '
        f'"{use.method}", and the runtime {runtime} has not got it; it has: '
        f"{', '.join(have) or 'no backend'}.",
        "Use a recipe for a backend that the runtime has, or a runtime with that backend "
        "(et_runtime_import).",
    )


def _with_operator(app: str, runtime: Runtime, use: Use, operator: str) -> Library:
    for one in runtime.choice:
        if operator in one.operators:
            return one
    known = {o for one in (runtime.core, *runtime.choice, *runtime.kernels) for o in one.operators}
    near = difflib.get_close_matches(operator, sorted(known), n=3, cutoff=0.8)
    raise BuildError(
        f'{app}: {use.program} has the operator "{operator}" in its method "{use.method}", and '
        f"no library of the runtime {runtime} registers it"
        f"{'; similar ones: ' + ', '.join(near) if near else ''}.",
        "Give a cc_library that registers it in kernels, use a runtime that has it "
        "(et_runtime_import), or a recipe that delegates or decomposes it.",
    )


def _check_once(app: str, chosen: Sequence[Library]) -> None:
    owner: dict[str, Library] = {}
    for one in chosen:
        twice = sorted(o for o in one.operators if owner.setdefault(o, one) is not one)
        if twice:
            first = owner[twice[0]]
            listed = ", ".join(twice[:3]) + (f" and {len(twice) - 3} more" if twice[3:] else "")
            raise BuildError(
                f"{app}: {first.label} and {one.label} both register {listed}; ExecuTorch ends a "
                "process that has an operator twice.",
                "Leave one of them out of kernels, or out of the runtime's libraries.",
            )


def _with_deps(chosen: Iterable[Library], known: Iterable[Library]) -> list[Library]:
    by_label = {one.label: one for one in known}
    ordered: dict[str, Library] = {}

    def add(one: Library) -> None:
        if one.label in ordered:
            return
        for dep in one.deps:
            add(by_label[dep])
        ordered[one.label] = one

    for one in chosen:
        add(one)
    return list(ordered.values())


def link_flags(chosen: Sequence[Library], macho: bool) -> list[str]:
    """Arguments of the linker for a runtime's libraries; those of an app's kernels come with them.

    Args:
        chosen: the libraries.
        macho: whether it is a linker for Apple's platforms.
    """
    flags: list[str] = []
    plain = [one for one in chosen if one.static and not one.registers]
    for one in chosen:
        if one in plain:
            continue
        if macho:
            flags.append(f"-Wl,-force_load,{one.path}" if one.static else one.path)
        else:
            before, after = _KEEP_STATIC if one.static else _KEEP_SHARED
            flags += [before, one.path, after]
    paths = [one.path for one in plain]
    # They may need each other in a circle; Mach-O linkers look again by themselves.
    if paths and not macho:
        paths = ["-Wl,--start-group", *paths, "-Wl,--end-group"]
    return flags + paths


def split_static(
    chosen: Sequence[Library],
    uses: Sequence[Use],
    places: Mapping[str, tuple[Path, Path]],
    macho: bool,
) -> tuple[list[Library], dict[str, Selected]]:
    """Puts in the place of static libraries the parts of them that an app needs.

    Args:
        chosen: the libraries.
        uses: of all programs of the app.
        places: label of a static library to the two files that are written for it; those of
            libraries that aren't chosen become empty.
        macho: whether the linker is for Apple's platforms.

    Returns:
        The libraries to link; and per label what was kept.

    Raises:
        BuildError: a static library is damaged.
    """
    operators = {o for use in uses for o in use.operators}
    backends = {b for use in uses for b in use.backends}
    linked: list[Library] = []
    selected: dict[str, Selected] = {}
    for one in chosen:
        if one.label not in places:
            linked.append(one)
            continue
        kept, rest = places[one.label]
        selected[one.label] = select(Path(one.path), operators, backends, kept, rest, macho)
        linked.append(dataclasses.replace(one, path=str(kept)))
        linked.append(Library(f"{one.label}.rest", str(rest), one.deps, frozenset(), frozenset()))
    for label, files in places.items():
        if label not in selected:
            for file in files:
                static_library.write(file, [], macho)
    return linked, selected


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
    app: str,
    runtime: Runtime,
    uses: Sequence[Use],
    chosen: Sequence[Library],
    selected: Mapping[str, Selected],
) -> dict[str, Any]:
    """What EtFit found, as one JSON object."""
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
        "libraries": [
            libraries.facts(one, used)
            | (dataclasses.asdict(selected[one.label]) if one.label in selected else {})
            for one in chosen
        ],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs EtFit; returns the exit code."""
    parser = ToolParser(prog="etbundle.fit", description=__doc__)
    for name in ("label", "runtime", "platform", "runtime_version"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--program", nargs=2, action="append", default=[])
    for role in ("core", "library", "always", "kernels"):
        parser.add_argument(f"--{role}", nargs=4, action="append", default=[])
    parser.add_argument("--static", nargs=3, action="append", default=[])
    parser.add_argument("--fit", type=Path, required=True, help="JSON to write")
    parser.add_argument("--link_flags", type=Path, required=True, help="linker arguments to write")
    parser.add_argument(
        "--whole_link_flags", type=Path, help="the same with all of each static library, to write"
    )
    given = parser.parse_args(arguments)

    def work() -> None:
        runtime = Runtime(
            given.runtime,
            given.platform,
            given.runtime_version,
            *_libraries(given.core),
            choice=_libraries(given.library),
            always=_libraries(given.always),
            kernels=_libraries(given.kernels),
        )
        uses = [use for label, path in given.program for use in uses_of(label, Path(path))]
        chosen = choose(given.label, runtime, uses)
        macho = given.platform.startswith(("ios_", "macos_"))
        own = {one.label for one in runtime.kernels}
        places = {label: (Path(kept), Path(rest)) for label, kept, rest in given.static}
        linked = [one for one in chosen if one.label not in own]
        parts, selected = split_static(linked, uses, places, macho)
        found = describe(given.label, runtime, uses, chosen, selected)
        write_text(given.fit, json.dumps(found, indent=1, sort_keys=True) + "\n")
        _write_flags(given.link_flags, link_flags(parts, macho))
        if given.whole_link_flags:
            _write_flags(given.whole_link_flags, link_flags(linked, macho))

    return exit_code(work)


def _write_flags(path: Path, flags: Sequence[str]) -> None:
    # A response file: white space, quotes and backslashes of paths are escaped.
    escaped = (re.sub(r"""([\s"'\\])""", r"\\\1", flag) for flag in flags)
    write_text(path, "".join(f"{flag}\n" for flag in escaped))


def _libraries(given: Sequence[Sequence[str]]) -> tuple[Library, ...]:
    return tuple(
        libraries.read(label, path, Path(scan), tuple(deps.split("\n")) if deps else ())
        for label, path, scan, deps in given
    )


if __name__ == "__main__":
    sys.exit(main())
