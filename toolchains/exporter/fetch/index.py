"""Finds files of Python packages by hash; none of them runs.

The places are those of pip's settings: folders and pages of `find-links`, then simple indexes, as
HTML or JSON. A hash says which file is right, so the first place that has it is as good as any. A
place that tells no hashes is asked for a file of the right name, whose hash is then compared.
Wheels and source archives come in the same way.

Repository rules have Bazel download the files (find.py); `bazelw` does it itself.
"""

from __future__ import annotations

import errno
import hashlib
import html.parser
import http.client
import json
import tempfile
import urllib.error
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urljoin, urlsplit
from urllib.request import url2pathname

from . import tags
from .network import Network, reason_of, without_login
from .settings import Settings
from .tags import canonical

_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1"
)
_ARCHIVES = (".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz")
_CHECK = "Check the network and pip's index, mirror and proxy settings (`pip config list`)."

_UNKNOWN = (
    "pip's settings name no package index, and no pip is found that has one by default: set "
    "PIP_INDEX_URL, or install pip (on Debian and Ubuntu: python3-pip)."
)


class FetchError(Exception):
    """A message: `<package or file>: <what is wrong>: got <x>, expected <y>. <what to do>`."""


@dataclass(frozen=True)
class Wanted:
    """A file of a package: one of the hashes is its own. A wheel has an order of tags."""

    name: str
    version: str
    hashes: frozenset[str]
    order: tags.Order | None = None

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class File:
    """A file that a place has, and its hash if the place tells it."""

    url: str
    name: str
    sha256: str = ""


@dataclass
class Search:
    """Everything that was found, and where, for messages."""

    problems: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


class _Links(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base, self.links = "", []  # type: tuple[str, list[str]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href") or ""
        if tag == "base":
            self.base = self.base or href
        elif tag == "a" and href:
            self.links.append(href)


def links_of(page: bytes, kind: str, url: str) -> list[File]:
    """The files that a page of an index links to.

    Args:
      kind: the page's content type.
      url: of the page, which links are relative to.
    """
    if kind.endswith("json"):
        entries = json.loads(page)["files"]
        pairs = [(e["url"], (e.get("hashes") or {}).get("sha256", "")) for e in entries]
    else:
        parser = _Links()
        parser.feed(page.decode("utf-8", "replace"))
        url = urljoin(url, parser.base)
        pairs = [(link, "") for link in parser.links]
    found = []
    for link, sha256 in pairs:
        whole = urljoin(url, link)
        parts = urlsplit(whole)
        told = parse_qs(parts.fragment).get("sha256", [""])[0]
        found.append(File(whole, name_of(whole), sha256 or told))
    return found


def name_of(url: str) -> str:
    """The last part of a URL's path, unquoted."""
    return unquote(urlsplit(url).path).rpartition("/")[2]


def _folder(path: Path) -> list[File]:
    return [File(file.absolute().as_uri(), file.name) for file in sorted(path.iterdir())]


def local_path(place: str) -> Path | None:
    """The path of a place that is no URL, or a file's URL."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if parts.scheme and "://" in place else Path(place).expanduser()


class Index:
    """Looks for files where the settings lead."""

    def __init__(self, settings: Settings, more: Iterable[str] = ()) -> None:
        """`more` are URLs of indexes that are asked last."""
        self._more = tuple(url.rstrip("/") + "/" for url in more)
        self._settings = settings
        self.network = Network(settings, self._more)
        self.advice = _UNKNOWN if settings.index_is_unknown else _CHECK

    def _page(self, url: str) -> list[File]:
        path = local_path(url)
        if path is None and urlsplit(url).path.endswith((".whl", *_ARCHIVES)):
            return links_of(f'<a href="{url}">'.encode(), "text/html", url)
        if path is None:
            return links_of(*self.network.read(url, _ACCEPT))
        if path.is_dir() and not (path / "index.html").is_file():
            return _folder(path)
        path = path / "index.html" if path.is_dir() else path
        base = path.parent.absolute().as_uri() + "/"
        if path.name.endswith((".whl", *_ARCHIVES)):
            return [File(path.absolute().as_uri(), path.name)] if path.exists() else []
        return links_of(path.read_bytes(), "text/html", base) if path.exists() else []

    def listings(self, name: str, search: Search | None = None) -> Iterator[list[File]]:
        """Returns what each place has of a package, one after the other."""
        search = search or Search()
        indexes = [*self._settings.index_urls, *self._more]
        for place in [*self._settings.find_links, *(f"{i}{canonical(name)}/" for i in indexes)]:
            search.places.append(without_login(place))
            try:
                yield self._page(place)
            except urllib.error.HTTPError as error:
                if error.code not in (404, 410):
                    search.problems.append(f"{without_login(place)}: {reason_of(error)}")
            except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError) as error:
                search.problems.append(f"{without_login(place)}: {reason_of(error)}")

    def candidates(self, wanted: Wanted, search: Search) -> Iterator[File]:
        """Files that may be the right one: of each place the best first."""
        for files in self.listings(wanted.name, search):
            yield from best_first(files, wanted, search)

    def fetch_newest(
        self, name: str, key: Callable[[str], tuple[int, ...] | None], folder: Path
    ) -> Path:
        """Puts this machine's wheel of a package's newest version into a folder; no hash is known.

        Args:
          key: of a version: what versions are compared by; None for those that do not count.
        """
        folder.mkdir(parents=True, exist_ok=True)
        search, order = Search(), tags.order(tags.platforms())
        for files in self.listings(name, search):
            ranked = []
            for file in files:
                parts, place = tags.wheel_parts(file.name), tags.rank(file.name, order)
                version = parts and parts[0] == canonical(name) and key(parts[1])
                if version and place is not None:
                    ranked.append((version, -place, file.name, file.url, file))
            for *_, file in sorted(ranked, reverse=True):
                if path := _downloaded(file, self.network, folder, search):
                    return path
        found = "".join(f"\n  {problem}" for problem in [*search.problems, *search.others])
        places = ", ".join(search.places) or "no place"
        text = f"{name}: no wheel for this machine found in {places}. {self.advice}{found}"
        raise FetchError(text)


def best_first(files: Iterable[File], wanted: Wanted, search: Search) -> list[File]:
    """Those of a place's files that may be the right one."""
    ranked = []
    for file in files:
        place = _place(file, wanted)
        if place is None:
            continue
        if file.sha256 and file.sha256 not in wanted.hashes:
            search.others.append(f"{file.name} (sha256 {file.sha256})")
            continue
        ranked.append((not file.sha256, place, file.name, file.url, file))
    return [file for *_, file in sorted(ranked)]


def _downloaded(file: File, network: Network, folder: Path, search: Search) -> Path | None:
    """Downloads a file, or notes why not; where no hash is told, any file will do."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as scratch:
        path = Path(scratch, "file")
        try:
            network.download(file.url, path)
        except (OSError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) == errno.ENOSPC:
                raise
            search.problems.append(f"{without_login(file.url)}: {reason_of(error)}")
            return None
        got = sha256_of(path)
        if got == file.sha256 or not file.sha256:
            return path.replace(folder / file.name)
        search.others.append(f"{file.name} (sha256 {got})")
        return None


def _place(file: File, wanted: Wanted) -> int | None:
    """The place of a file among those of its package, or None if it is none that is wanted."""
    if wanted.order is None:
        if not file.name.endswith(_ARCHIVES):
            return None
        stem = next(file.name[: -len(a)] for a in _ARCHIVES if file.name.endswith(a))
        name, _, version = stem.rpartition("-")
        place: int | None = 0
    else:
        parts = tags.wheel_parts(file.name)
        if parts is None:
            return None
        name, version, place = parts[0], parts[1], tags.rank(file.name, wanted.order)
    # A lock's version without a local part has all builds of it.
    version = version if "+" in wanted.version else version.partition("+")[0]
    same = canonical(name) == canonical(wanted.name) and version == wanted.version
    return place if same or file.sha256 in wanted.hashes else None


def not_found(wanted: Wanted, search: Search, advice: str) -> FetchError:
    """The error of a search that had no result."""
    kind = "source archive" if wanted.order is None else "wheel for this machine"
    expected = sorted(wanted.hashes)
    others = f" or one of {len(expected) - 1} more" if expected[1:] else ""
    expects = f"expected sha256 {expected[0]}{others}"
    problems = "".join(f"\n  {problem}" for problem in search.problems)
    if search.others:
        return FetchError(
            f"{wanted}: the file is not the one in the lock: got {', '.join(search.others[:3])}, "
            f"{expects}. Use the package index that the lock was written from, or write the lock "
            f"again.{problems}"
        )
    if search.problems:
        return FetchError(f"{wanted}: no {kind} could be fetched, {expects}. {advice}{problems}")
    places = ", ".join(search.places) or "no place"
    return FetchError(f"{wanted}: no {kind} found in {places}, {expects}. {advice}")


def sha256_of(path: Path) -> str:
    """A file's hash."""
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
