"""Finds files for Bazel to download: pages of indexes are read here, files never.

So each file has Bazel's own proxies, netrc, rewritten URLs, check of the hash and repository cache.
Where Bazel cannot download one, it asks again without that URL.
"""

from __future__ import annotations

import http.client
import tempfile
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from . import tags
from .index import (
    File,
    Index,
    Search,
    Wanted,
    best_first,
    local_path,
    name_of,
    not_found,
    sha256_of,
)
from .network import Network, reason_of, request_url, without_login
from .settings import Settings

# Requests at once.
_REQUESTS = 8
_FAILED = "Bazel could not download it; its warning above has the reason"
# Settings of pip that Bazel does not take, and where it has its own.
_OWN_TO_PIP = {
    "cert": "cert (Bazel's: startup --host_jvm_args=-Djavax.net.ssl.trustStore=<file>)",
    "client_cert": "client-cert (Bazel's: startup --host_jvm_args=-Djavax.net.ssl.keyStore=<file>)",
    "proxy": "proxy (Bazel's: the variable https_proxy)",
}


def find(request: Mapping[str, Any], settings: Settings) -> dict[str, dict[str, Any]]:
    """Finds where to download files.

    Args:
      request: "files": names to objects with "requirement" ("package==version"), "sha256" (a list,
        of which one is the file's), "platform" (tag of the wheel, "": this machine's), "source"
        (whether it is a source archive), "indexes" (URLs that are asked last), "urls" (sha256 to
        URLs that are known; no other place is asked then). "failed": URLs that are not tried.

    Returns:
      For each name an object: "urls", any of which will do; "sha256"; "login", user and password
      or nothing; "known", whether no other place is asked.

    Raises:
      FetchError: a file is in no place.
    """
    failed = frozenset(request["failed"])
    with ThreadPoolExecutor(_REQUESTS) as executor:
        found = executor.map(lambda e: _find(e, settings, failed), request["files"].values())
        return dict(zip(request["files"], found, strict=True))


def _find(entry: Mapping[str, Any], settings: Settings, failed: Collection[str]) -> dict[str, Any]:
    name, _, version = entry["requirement"].partition("==")
    order = None if entry["source"] else tags.order(tags.platforms(entry["platform"]))
    wanted = Wanted(name, version, frozenset(entry["sha256"]), order)
    known = entry["urls"]
    files = [File(urls[0], name_of(urls[0]), sha256) for sha256, urls in known.items()]
    for file in best_first(files, wanted, Search()):
        return _answer(file.sha256, known[file.sha256], Network(settings), is_known=True)
    index, search = Index(settings, entry["indexes"]), Search()
    for file in index.candidates(wanted, search):
        shown = without_login(request_url(file.url))
        if request_url(file.url) in failed:
            search.problems.append(f"{shown}: {_FAILED}")
            continue
        try:
            sha256 = file.sha256 or _sha256_of(file.url, index.network)
        except (OSError, http.client.HTTPException) as error:
            search.problems.append(f"{shown}: {reason_of(error)}")
            continue
        if sha256 in wanted.hashes:
            return _answer(sha256, [file.url], index.network)
        search.others.append(f"{file.name} (sha256 {sha256})")
    raise not_found(wanted, search, index.advice + (_other_settings(settings) if failed else ""))


def _sha256_of(url: str, network: Network) -> str:
    """Hashes a file of a place that tells no hashes."""
    if path := local_path(url):
        return sha256_of(path)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        network.download(url, path)
        return sha256_of(path)


def _answer(
    sha256: str, urls: list[str], network: Network, is_known: bool = False
) -> dict[str, Any]:
    return {
        "urls": [request_url(url) for url in urls],
        "sha256": sha256,
        "login": next(filter(None, map(network.login_in, urls)), ()),
        "known": is_known,
    }


def _other_settings(settings: Settings) -> str:
    """A sentence on settings of pip that do not reach Bazel's downloader."""
    found = [text for name, text in _OWN_TO_PIP.items() if getattr(settings, name)]
    return f" Bazel does not take these of pip's settings: {', '.join(found)}." if found else ""
