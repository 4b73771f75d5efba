"""A client of the hub: what a model's repository has at a commit, and the bytes of its files.

The hub is not trusted. What it says is checked by type, names and hashes are checked before they
are used, and each file that is read is compared with the size and the git hash that the hub's list
has. The token goes to the endpoint alone: files come from other hosts, to which the hub redirects,
and following a redirect with the header would give these hosts the user's account. Each wait and
each chain of redirects has an end.

This module needs the standard library only: the repository rule starts it with the machine's
Python.
"""

from __future__ import annotations

import dataclasses
import email.utils
import hashlib
import http.client
import json
import netrc
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any

DEFAULT_ENDPOINT = "https://huggingface.co"

_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_REPO = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_TOKEN = re.compile(r"[!-~]*")
_NEXT = re.compile(r'<([^<>]+)>\s*;\s*rel="?next"?')
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 10
_MOST_PAGES = 1000
_MOST_BYTES_OF_JSON = 64 << 20
_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 60

# The longest wait between two attempts.
_MOST_SECONDS = 120


class HubError(Exception):
    """The hub's answer is of no use.

    Args:
      what: what is wrong, with got against expected.
      hint: what to do about it.
    """

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what} {hint}")
        self.what = what
        self.hint = hint


@dataclasses.dataclass(frozen=True)
class HubFile:
    """A file in a model's repository.

    Attributes:
      path: in the repository, with slashes.
      size: in bytes.
      git_sha1: hash of git's object; of a file in LFS that of its pointer.
      sha256: of the contents; empty: the hub does not say, as the file is in git itself.
    """

    path: str
    size: int
    git_sha1: str
    sha256: str


@dataclasses.dataclass(frozen=True)
class Model:
    """What the hub says of a model.

    Attributes:
      repo: its present name, "org/model".
      commit: 40 hex digits.
      licenses: the hub's names of its licenses ("apache-2.0"), sorted.
      license_name: name of the license "other"; may be empty.
    """

    repo: str
    commit: str
    licenses: tuple[str, ...]
    license_name: str


@dataclasses.dataclass
class _Answer:
    """An open answer, and the headers of the endpoint's own, which may have been a redirect."""

    body: http.client.HTTPResponse
    headers: Mapping[str, str]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Leaves redirects to the client: urllib would send the token along."""


class Hub:
    """A hub.

    Args:
      endpoint: its address, such as "https://huggingface.co".
      token: of a user; empty: none.
      attempts: at a request that the hub answers with "later".
      sleep: waits for some seconds.

    Example:

        hub = Hub.of_environment(os.environ)
        model = hub.model("HuggingFaceTB/SmolLM2-135M-Instruct", "main")
        files = hub.files(model.repo, model.commit)
    """

    def __init__(
        self,
        endpoint: str,
        token: str = "",
        attempts: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.endpoint = endpoint.rstrip("/")
        if urllib.parse.urlsplit(self.endpoint).scheme not in ("http", "https"):
            raise HubError(
                f'HF_ENDPOINT: got "{endpoint}", expected an address such as "{DEFAULT_ENDPOINT}".',
                "Correct the variable, or remove it.",
            )
        if not _TOKEN.fullmatch(token):
            raise HubError(
                "HF_TOKEN: got spaces or control characters, expected a token without them.",
                "Copy it again from the settings of your account.",
            )
        self._token = token
        self._attempts = attempts
        self._sleep = sleep
        self._opener = urllib.request.build_opener(_NoRedirects)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str], **more: Any) -> Hub:
        """The hub of HF_ENDPOINT, with the token of HF_TOKEN or else of netrc.

        Args:
          environment: variables.
          **more: further arguments of the class.
        """
        endpoint = environment.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
        token = environment.get("HF_TOKEN", "").strip() or _token_of_netrc(endpoint, environment)
        return cls(endpoint, token, **more)

    def model(self, repo: str, revision: str) -> Model:
        """What the hub says of a model.

        Args:
          repo: "org/model".
          revision: branch, tag or commit.

        Raises:
          HubError: there is no such model, it may not be read, or the answer is malformed.
        """
        if not _REPO.fullmatch(repo):
            raise HubError(
                f'"{repo}": got no name of a model, expected "organization/model".',
                "Copy it from the model's page.",
            )
        where = f"{repo} at {revision}"
        quoted = urllib.parse.quote(revision, safe="")
        raw = self._json(f"{self.endpoint}/api/models/{repo}/revision/{quoted}", where)[0]
        if not isinstance(raw, dict):
            raise _malformed(where, "an object", raw)
        commit = raw.get("sha")
        if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
            raise _malformed(where, "a commit of 40 hex digits as sha", commit)
        if _COMMIT.fullmatch(revision) and commit != revision:
            raise _other_commit(where, commit, revision)
        name = raw.get("id", repo)
        if not isinstance(name, str) or not _REPO.fullmatch(name):
            raise _malformed(where, "the model's name as id", name)
        return Model(name, commit, _licenses(raw, where), _license_name(raw))

    def files(self, repo: str, commit: str) -> list[HubFile]:
        """All files of a model's repository, sorted by path.

        Raises:
          HubError: they cannot be listed, or the answer is malformed.
        """
        where = f"{repo} at {commit}"
        url = f"{self.endpoint}/api/models/{repo}/tree/{commit}?recursive=1"
        files: dict[str, HubFile] = {}
        for _ in range(_MOST_PAGES):
            entries, url = self._json(url, where)
            if not isinstance(entries, list):
                raise _malformed(where, "a list of files", entries)
            for entry in entries:
                file = _file(entry, where)
                if file and files.setdefault(file.path, file) != file:
                    raise _malformed(where, "each file once", file.path)
            if not url:
                return [files[path] for path in sorted(files)]
        raise _malformed(where, f"at most {_MOST_PAGES} pages of files", "more")

    def sha256(self, repo: str, commit: str, file: HubFile) -> str:
        """The hash of a file's contents, which are read if the hub does not say it.

        Raises:
          HubError: the file cannot be read, or is not the one that the hub lists.
        """
        if file.sha256:
            return file.sha256
        where = f"{file.path} of {repo} at {commit}"
        answer = self._open(self.address(repo, commit, file.path), where)
        other = answer.headers.get("X-Repo-Commit", commit)
        if other != commit:
            raise _other_commit(where, other, commit)
        sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % file.size)
        size = 0
        for chunk in chunks(answer, where):
            size += len(chunk)
            if size > file.size:
                break
            sha256.update(chunk)
            git.update(chunk)
        if size != file.size:
            amount = f"more than {file.size}" if size > file.size else str(size)
            raise _arrived(where, f"{amount} bytes", f"{file.size} bytes")
        if git.hexdigest() != file.git_sha1:
            raise _arrived(where, f"git hash {git.hexdigest()}", f"git hash {file.git_sha1}")
        return sha256.hexdigest()

    def address(self, repo: str, commit: str, path: str) -> str:
        """Where a file is."""
        return f"{self.endpoint}/{repo}/resolve/{commit}/{urllib.parse.quote(path)}"

    def open(self, repo: str, commit: str, path: str) -> _Answer:
        """Begins to read a file.

        Raises:
          HubError: it cannot be read.
        """
        return self._open(self.address(repo, commit, path), f"{path} of {repo} at {commit}")

    def _json(self, url: str, where: str) -> tuple[Any, str]:
        """A JSON answer, and the address of the next page; empty: it is the last."""
        answer = self._open(url, where)
        data = b""
        for chunk in chunks(answer, where):
            data += chunk
            if len(data) > _MOST_BYTES_OF_JSON:
                raise _malformed(
                    where, "a shorter answer", f"more than {_MOST_BYTES_OF_JSON} bytes"
                )
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise _malformed(where, "JSON", data[:40].decode(errors="replace")) from error
        following = _NEXT.search(answer.headers.get("Link", ""))
        return value, urllib.parse.urljoin(url, following[1]) if following else ""

    def _open(self, url: str, where: str) -> _Answer:
        """Opens an address, with waits where the hub asks for them, or raises what is wrong."""
        for attempt in range(1, self._attempts + 1):
            answer = self._follow(url, where)
            status = answer.body.status
            if status == 200:
                return answer
            answer.body.close()
            later = status == 429 or status >= 500
            seconds = _seconds_to_wait(answer.body.headers, attempt)
            if not later or attempt == self._attempts or seconds > _MOST_SECONDS:
                raise self._refused(where, status, answer.body.headers, seconds)
            self._sleep(seconds)
        raise AssertionError("the last attempt returns or raises")

    def _follow(self, url: str, where: str) -> _Answer:
        """One request and the redirects that it leads to."""
        first: Mapping[str, str] | None = None
        seen = []
        while url not in seen and len(seen) < _MOST_REDIRECTS:
            seen.append(url)
            body = self._request(url, where)
            first = first or body.headers
            if body.status not in _REDIRECTS:
                return _Answer(body, first)
            body.close()
            target = urllib.parse.urljoin(url, body.headers.get("Location", ""))
            if not target.startswith(("https://", urllib.parse.urlsplit(url).scheme + "://")):
                raise HubError(
                    f"{where}: got a redirect to {target}, expected one to an https address.",
                    "Correct HF_ENDPOINT.",
                )
            url = target
        raise HubError(
            f"{where}: got a loop of redirects at {url}, expected a file or an answer.",
            "Correct HF_ENDPOINT, or try again later.",
        )

    def _request(self, url: str, where: str) -> http.client.HTTPResponse:
        request = urllib.request.Request(url, headers={"User-Agent": "rules_executorch"})
        if self._token and _origin(url) == _origin(self.endpoint):
            request.add_header("Authorization", f"Bearer {self._token}")
        try:
            return self._opener.open(request, timeout=_TIMEOUT_SECONDS)
        except urllib.error.HTTPError as error:
            return error  # type: ignore[return-value]
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise HubError(
                f"{where}: {_host(url)} cannot be reached: {reason}.",
                "Check the network, the proxy's variables and HF_ENDPOINT.",
            ) from error

    def _refused(
        self, where: str, status: int, headers: Mapping[str, str], seconds: float
    ) -> HubError:
        """What an answer other than 200 means."""
        code = headers.get("X-Error-Code", "")
        repo = where.partition(" of ")[2].partition(" at ")[0] or where.partition(" at ")[0]
        page = f"{self.endpoint}/{repo}"
        given = "the token was not accepted" if self._token else "no token is set"
        if code == "GatedRepo" or (status in (401, 403) and code != "RepoNotFound"):
            return HubError(
                f"{where}: the model is gated: got status {status}, and {given}.",
                f"Accept the license at {page}, and set HF_TOKEN to a token of that account, or "
                f"have it in netrc as the password of {_host(self.endpoint)}.",
            )
        if code == "RepoNotFound":
            return HubError(
                f"{where}: the model does not exist or is private: got status {status}, "
                f"and {given}.",
                "Correct its name. If it is private, set HF_TOKEN.",
            )
        if status == 404:
            reason = f" {code}" if code else ""
            return HubError(
                f"{where}: not found: got status 404{reason}.",
                f"Compare model, revision and path with {page}/tree/main.",
            )
        if status == 429:
            return HubError(
                f"{where}: too many requests: got status 429 from {_host(self.endpoint)}.",
                f"Try again in {seconds:.0f} seconds, or set HF_TOKEN, which raises the limit.",
            )
        return HubError(
            f"{where}: got status {status} from {_host(self.endpoint)}, expected 200.",
            "Try again later, or set HF_ENDPOINT to a mirror.",
        )


def linked_sha256(answer: _Answer) -> str:
    """The hash that the hub announces for a file in LFS; empty: none."""
    value = answer.headers.get("X-Linked-Etag", "").strip('"')
    return value if _SHA256.fullmatch(value) else ""


def chunks(answer: _Answer, where: str) -> Iterator[bytes]:
    """The bytes of an answer.

    Args:
      answer: of `Hub.open`.
      where: what is read, for messages.

    Raises:
      HubError: the connection ended before all of them arrived.
    """
    size = 0
    announced = answer.body.headers.get("Content-Length", "")
    try:
        while chunk := answer.body.read(_CHUNK):
            size += len(chunk)
            yield chunk
    except (OSError, http.client.HTTPException) as error:
        raise _arrived(where, f"{size} bytes", f"{announced or 'more'} bytes") from error
    finally:
        answer.body.close()
    if announced.isdecimal() and size < int(announced):
        raise _arrived(where, f"{size} bytes", f"{announced} bytes")


def _arrived(where: str, got: str, expected: str) -> HubError:
    return HubError(
        f"{where}: the file arrived truncated or changed: got {got}, expected {expected}.",
        "Try again; if it happens again, a proxy or mirror changes files.",
    )


def _malformed(where: str, expected: str, got: object) -> HubError:
    return HubError(
        f"{where}: the hub's answer is malformed: got {got!r:.80}, expected {expected}.",
        "Check that HF_ENDPOINT is a hub, and that no proxy answers for it.",
    )


def _other_commit(where: str, got: str, expected: str) -> HubError:
    return HubError(
        f"{where}: the hub answered with another commit: got {got!r:.80}, expected {expected}.",
        "Try again, or set HF_ENDPOINT to another mirror.",
    )


def _file(entry: object, where: str) -> HubFile | None:
    """A file of the hub's list; None: the entry is a folder."""
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise _malformed(where, "entries with a path", entry)
    if entry.get("type") != "file":
        return None
    path, size, git_sha1 = entry["path"], entry.get("size"), entry.get("oid")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise _malformed(where, f"the size of {path!r:.80}", size)
    if not isinstance(git_sha1, str) or not _COMMIT.fullmatch(git_sha1):
        raise _malformed(where, f"the git hash of {path!r:.80} as oid", git_sha1)
    lfs = entry.get("lfs")
    if lfs is None:
        return HubFile(path, size, git_sha1, "")
    sha256 = lfs.get("oid") if isinstance(lfs, dict) else lfs
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise _malformed(where, f"the sha256 of {path!r:.80} as lfs.oid", sha256)
    return HubFile(path, size, git_sha1, sha256)


def _licenses(raw: Mapping[str, Any], where: str) -> tuple[str, ...]:
    tags = raw.get("tags", [])
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise _malformed(where, "a list of texts as tags", tags)
    return tuple(sorted({tag[8:] for tag in tags if tag.startswith("license:")}))


def _license_name(raw: Mapping[str, Any]) -> str:
    card = raw.get("cardData")
    name = card.get("license_name") if isinstance(card, dict) else ""
    return name if isinstance(name, str) else ""


def _seconds_to_wait(headers: Mapping[str, str], attempt: int) -> float:
    """How long the hub asks to wait, in seconds or as a date; else twice as long each time."""
    text = headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        until = email.utils.parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return float(2 ** (attempt - 1))
    return max(0.0, until.timestamp() - time.time())


def _token_of_netrc(endpoint: str, environment: Mapping[str, str]) -> str:
    """The password of the endpoint's host in netrc; empty: there is none."""
    path = environment.get("NETRC") or os.path.join(os.path.expanduser("~"), ".netrc")
    try:
        found = netrc.netrc(path).authenticators(_host(endpoint).partition(":")[0])
    except (OSError, netrc.NetrcParseError):
        return ""
    return (found[2] or "") if found else ""


def _origin(url: str) -> tuple[str, str]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.netloc


def _host(url: str) -> str:
    return urllib.parse.urlsplit(url).netloc
