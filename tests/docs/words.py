"""Words that this project does not use, and where they occur in a tree.

Two lists: codespell's dictionaries (misspellings, British spellings), and the phrases retired here,
each with what to write instead. Both are read over code, messages, pages and file names.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import codespell_lib

# Instead of a retired phrase: what to write. Phrases are regular expressions; a space in one also
# matches a line break with the quotes or comment signs around it.
RETIRED = {
    r"quantis(?!t)": "quantiz…",
    r"made(?:[-_]| )?up(?![a-z])": "malformed (files); synthetic, example (test data)",
    r"gi(?:ve|ves|ven|ving) away": "released, shipped",
    r"in (?:the|its|their) place of|in (?:its|their) place\b": "instead of, replaces",
    r"stand(?:[-_]?| )ins?\b|stands in for": "placeholder (values), replacement (functions), fake",
    r"forms? of(?: the)?(?: model's)? conversations?": "chat template",
    r"own(?:[-_]| )main\b": "custom main",
    r"the first so many": "the first N",
    r"is no share": "is not a percentage",
    r"(?:is|are) nowhere\b": "not found",
    r"(?:has not|hasn't|have not|haven't) got": "not found. Available: …",
    r"(?:hasn't|has not|haven't|have not) the form": "is malformed",
    r"the other way (?:a)?round": "the reverse",
    r"take[sn]? (?:\w+ )?at (?:its|their) word": "trust",
}

# Names that codespell takes for mistakes: formats, functions, identifiers of others.
_NAMES = (
    *("ptd", "modell", "nd", "te", "sme", "caf", "cancelled", "unequality", "modle", "practise"),
    *("intoto", "notin"),
)
_DICTIONARIES = "clear,rare,en-GB_to_en-US"

# Data, texts of others, and what tools write.
_SKIPPED_SUFFIXES = (".jsonl", ".lock", ".p12", ".symbols")
_SKIPPED_PATHS = re.compile(
    r"/locks/|/symbols/|/operators\.(json|md)$|^tests/docs/(test_)?words\.py$"
)


@dataclass(frozen=True, order=True)
class Use:
    """One use of a word.

    Attributes:
        path: of the file, relative to the tree.
        line: from 1; 0: in the path itself.
        word: as it stands there.
        instead: what to write.
    """

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: got "{self.word}", expected "{self.instead}"'


def texts(root: Path) -> Iterator[str]:
    """The paths of a tree's own text files, sorted; links and build outputs are left out.

    Args:
      root: the folder of the repository.
    """
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if (not name.startswith(".") or name in (".bcr", ".ci"))
            and name != "__pycache__"
            and not os.path.islink(os.path.join(folder, name))
        )
        for name in sorted(files):
            path = Path(folder, name)
            relative = path.relative_to(root).as_posix()
            if path.is_symlink() or relative.endswith(_SKIPPED_SUFFIXES):
                continue
            if not _SKIPPED_PATHS.search(relative) and _is_text(path):
                yield relative


def retired(root: Path, paths: Iterable[str]) -> list[Use]:
    """Uses of the retired phrases.

    Args:
      root: the folder of the repository.
      paths: of `texts`.
    """
    patterns = {_spaced(phrase): instead for phrase, instead in RETIRED.items()}
    uses = []
    for path in paths:
        text = (root / path).read_text(encoding="utf-8")
        for pattern, instead in patterns.items():
            uses += [Use(path, 0, match[0], instead) for match in pattern.finditer(path)]
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                uses.append(Use(path, line, " ".join(match[0].split()), instead))
    return sorted(uses)


def misspelled(root: Path, paths: Sequence[str]) -> list[Use]:
    """Runs codespell.

    Args:
      root: the folder of the repository.
      paths: of `texts`.
    """
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.chdir(root):
        codespell_lib.main(
            f"--builtin={_DICTIONARIES}",
            f"--ignore-words-list={','.join(_NAMES)}",
            "--check-filenames",
            *[f"./{path}" for path in paths],
        )
    uses = []
    for report in printed.getvalue().splitlines():
        match = re.fullmatch(r"\./([^:]+)(?::(\d+))?: (\S+) ==> (.+)", report)
        if match:
            uses.append(Use(match[1], int(match[2] or 0), match[3], match[4]))
    return sorted(uses)


def _spaced(phrase: str) -> re.Pattern[str]:
    return re.compile(phrase.replace(" ", r"(?:[\s\"'#/*+]|(?<=\s)f(?=[\"']))+"), re.IGNORECASE)


def _is_text(path: Path) -> bool:
    head = path.read_bytes()
    try:
        head.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return b"\0" not in head
