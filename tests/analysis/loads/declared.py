"""Names that this module loads from others, and whether their published versions have them.

Tests run with a distribution's older copies of these modules. So `modules.json` records which file
of which version has which of the names, as read from the sources of their releases:

    python3 tests/analysis/loads/declared.py rules_cc=0.1.5=FOLDER …
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from natives import starlark

RECORD = Path(__file__).with_name("modules.json")

# A file of a module, "//cc:defs.bzl", to names.
Files = dict[str, list[str]]

_MODULES = ("bazel_skylib", "platforms", "rules_cc", "rules_python")
_LOAD = re.compile(r'^load\(\s*"@(\w+)(//[^"]+)"([^)]*)\)', re.MULTILINE)


def loaded(root: Path) -> dict[str, Files]:
    """Lists the names that the files below a folder load: module to file to names, sorted."""
    names: dict[str, dict[str, set[str]]] = {module: {} for module in _MODULES}
    for path in starlark(root):
        # A text in a .bzl file may be a BUILD file of a repository rule.
        for module, label, words in _LOAD.findall(path.read_text(encoding="utf-8")):
            if module in names:
                names[module].setdefault(label, set()).update(re.findall(r'"(\w+)"', words))
    return {
        module: {label: sorted(files[label]) for label in sorted(files)}
        for module, files in names.items()
    }


def exported(text: str) -> set[str]:
    """Names that a .bzl file gives to those that load it."""
    return {name for name in _defined(ast.parse(text)) if not name.startswith("_")}


def _defined(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            yield statement.name
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def missing(wanted: Mapping[str, Sequence[str]], has: Mapping[str, Sequence[str]]) -> list[str]:
    """Lists what is loaded and not there: "//cc:defs.bzl: cc_library"."""
    return [
        f"{label}: {name}"
        for label, names in wanted.items()
        for name in names
        if name not in has.get(label, ())
    ]


def _read(folder: Path, wanted: Mapping[str, Sequence[str]]) -> Files:
    """The wanted names that a module's sources have."""
    files = {}
    for label, names in wanted.items():
        path = folder / label.replace(":", "/").lstrip("/")
        has = exported(path.read_text(encoding="utf-8")) if path.exists() else set()
        files[label] = [name for name in names if name in has]
    return files


def main(arguments: Sequence[str]) -> None:
    """Writes the record."""
    wanted = loaded(RECORD.parents[3])
    record: dict[str, dict[str, Files]] = {}
    for argument in arguments:
        module, version, folder = argument.split("=", 2)
        record.setdefault(module, {})[version] = _read(Path(folder), wanted[module])
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
