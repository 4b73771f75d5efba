"""Finds a Debian mirror in the machine's own apt sources."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bootstrap.console import BootstrapError

MIRROR_VARIABLE = "RULES_EXECUTORCH_DEBIAN_MIRROR"

# Suites that name a release of Debian itself: no other distribution calls its suites so.
DEBIAN_SUITES = frozenset(
    [
        "stable",
        "oldstable",
        "oldoldstable",
        "testing",
        "unstable",
        "sid",
        "bullseye",
        "bookworm",
        "trixie",
        "forky",
        "duke",
    ]
)

KEYRINGS = tuple(
    Path(directory) / f"debian-archive-keyring.{ending}"
    for directory in ("/usr/share/keyrings", "/etc/apt/keyrings")
    for ending in ("pgp", "gpg", "asc")
)


@dataclass(frozen=True)
class Source:
    """One archive of an apt source list.

    Attributes:
        uri: the archive's address.
        suites: the suites that the machine takes from it.
        signed_by: the keyring it is checked with, or "" for apt's default.
        origin: the file that names it, for messages.
    """

    uri: str
    suites: tuple[str, ...]
    signed_by: str
    origin: str


def parse_one_line(text: str, origin: str) -> list[Source]:
    """Reads the one-line format: `deb [options] uri suite components...`."""
    sources: list[Source] = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)", line)
        if match:
            signed_by = re.search(r"(?:^|\s)signed-by=(\S+)", match[1] or "", re.IGNORECASE)
            key = signed_by[1].split(",")[0] if signed_by else ""
            sources.append(Source(match[2], (match[3],), key, origin))
    return sources


def _stanzas(text: str) -> Iterable[dict[str, str]]:
    """The stanzas of a deb822 file, field names in lower case, continuation lines joined."""
    stanza: dict[str, str] = {}
    field = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza, field = {}, ""
        elif line[0] in " \t" and field:
            stanza[field] += "\n" + line.strip()
        elif ":" in line:
            field, _, value = line.partition(":")
            field = field.strip().lower()
            stanza[field] = value.strip()


def parse_deb822(text: str, origin: str) -> list[Source]:
    """Reads the deb822 format, `Types: deb` and `URIs: ...` in stanzas."""
    sources: list[Source] = []
    for stanza in _stanzas(text):
        if stanza.get("enabled", "yes").lower() in ("no", "false", "0"):
            continue
        if "deb" not in stanza.get("types", "").split():
            continue
        signed_by = stanza.get("signed-by", "").strip()
        if "\n" in signed_by or "BEGIN PGP" in signed_by:
            signed_by = ""  # A key written into the stanza; apt's own keyrings have to do.
        key = signed_by.split(",")[0].strip()
        suites = tuple(stanza.get("suites", "").split())
        sources.extend(Source(uri, suites, key, origin) for uri in stanza.get("uris", "").split())
    return sources


def read_sources(apt_directory: Path = Path("/etc/apt")) -> list[Source]:
    """All enabled sources of the machine, in apt's order."""
    sources: list[Source] = []
    parts = apt_directory / "sources.list.d"
    files = [apt_directory / "sources.list"]
    files += sorted(parts.iterdir()) if parts.is_dir() else []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if file.suffix == ".list":
            sources += parse_one_line(text, str(file))
        elif file.suffix == ".sources":
            sources += parse_deb822(text, str(file))
    return sources


def _is_debian(source: Source) -> bool:
    if not source.uri.startswith(("http://", "https://", "mirror", "file:", "copy:", "tor+")):
        return False
    return any(suite in DEBIAN_SUITES for suite in source.suites)


def _usable_keyring(signed_by: str) -> str:
    for candidate in ([Path(signed_by)] if signed_by else []) + list(KEYRINGS):
        if candidate.is_file():
            return str(candidate)
    return ""


def find_debian(
    sources: list[Source] | None = None, environment: Mapping[str, str] = os.environ
) -> Source:
    """The Debian archive to take packages from.

    Returns:
        The archive, with a keyring that exists or "" for apt's default keyrings.

    Raises:
        BootstrapError: the machine knows no Debian archive.
    """
    mirror = environment.get(MIRROR_VARIABLE, "")
    if mirror:
        return Source(mirror, (), _usable_keyring(""), f"${MIRROR_VARIABLE}")
    found = read_sources() if sources is None else sources
    for source in found:
        if _is_debian(source):
            keyring = _usable_keyring(source.signed_by)
            return Source(source.uri, source.suites, keyring, source.origin)
    named = ", ".join(sorted({suite for source in found for suite in source.suites})) or "none"
    raise BootstrapError(
        "no Debian archive among this machine's apt sources (/etc/apt/sources.list and "
        f"/etc/apt/sources.list.d): wanted a suite such as bookworm or trixie, got {named}",
        [f"Set {MIRROR_VARIABLE} to the address of a Debian mirror (the directory with dists/)."],
    )
