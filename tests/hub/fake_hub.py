"""A fake of the Hugging Face hub, for tests: no test reaches the real one.

It answers as the hub does: `/api/models/<repo>/revision/<revision>`, and
`/<repo>/resolve/<commit>/<path>`, which redirects to another server for files in LFS. It takes
range requests. A fault makes it lie or refuse.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit


class FakeHub:
    """A hub with models, and the server of its large files.

    Attributes:
      endpoint: its address.
      fault: what is wrong with it; "": nothing. One of "busy" (status 429, `busy` times), "changed"
        (a file has other bytes than were announced), "down" (status 503), "gated" (status 401
        without the token), "loop" (of redirects), "missing" (files give status 404),
        "other_commit", "text" (instead of JSON), "truncated".
      busy: how many more requests get status 429.
      retry_after: what these say.
      requests: (server, path, token) of each request: "hub" or "files", and what the
        Authorization header has.

    Example:

        hub = FakeHub()
        commit = hub.add("org/net", {"config.json": b"{}"}, license="mit")
        ...
        hub.close()
    """

    token = "hf_secret"

    def __init__(self) -> None:
        self.fault = ""
        self.busy = 0
        self.retry_after = "0"
        self.requests: list[tuple[str, str, str]] = []
        self._models: dict[str, dict[str, Any]] = {}
        self._hub, self.endpoint = self._serve("hub", self.answer)
        self._files, self._storage = self._serve("files", self.answer_file)

    def add(
        self,
        repo: str,
        files: Mapping[str, bytes],
        license: str = "apache-2.0",
        in_lfs: tuple[str, ...] = (".safetensors", ".bin"),
    ) -> str:
        """Adds a model with its files; returns its commit, which is derived from them."""
        text = repr((repo, sorted(files.items())))
        commit = hashlib.sha1(text.encode()).hexdigest()
        self._models[repo] = {
            "commit": commit,
            "files": dict(files),
            "tags": [f"license:{license}"] if license else [],
            "in_lfs": in_lfs,
        }
        return commit

    def close(self) -> None:
        """Ends the servers."""
        for server in (self._hub, self._files):
            server.shutdown()
            server.server_close()

    def _serve(self, name: str, answer: Any) -> tuple[http.server.ThreadingHTTPServer, str]:
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                token = self.headers.get("Authorization", "")
                fake.requests.append((name, self.path, token))
                answer(self, token)

            def do_HEAD(self) -> None:
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """Nothing."""

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server, f"http://127.0.0.1:{server.server_address[1]}"

    def answer(self, request: Any, token: str) -> None:
        """Answers a request to the hub."""
        url = urlsplit(request.path)
        if self.fault == "busy" and self.busy:
            self.busy -= 1
            return _send(request, 429, b"", {"Retry-After": self.retry_after})
        if self.fault == "down":
            return _send(request, 503, b"", {"Retry-After": "0"})
        if self.fault == "loop":
            return _send(request, 302, b"", {"Location": request.path})
        if match := re.fullmatch(r"/api/models/(.+)/(revision)/([^/]+)", url.path):
            repo, kind, revision = match.groups()
        elif match := re.fullmatch(r"/(.+?)/resolve/([^/]+)/(.+)", url.path):
            repo, revision, kind = match[1], match[2], "resolve"
        else:
            return _send(request, 404, b"")
        model = self._models.get(repo)
        if model is None:
            # The hub does not say which of both it is.
            return _send(request, 401, b"", {"X-Error-Code": "RepoNotFound"})
        if self.fault == "gated" and kind != "revision" and token != f"Bearer {self.token}":
            return _send(request, 401, b"", {"X-Error-Code": "GatedRepo"})
        if revision not in ("main", model["commit"]):
            return _send(request, 404, b"", {"X-Error-Code": "RevisionNotFound"})
        if kind == "resolve":
            return self._resolve(request, repo, model, match[3])
        if self.fault == "text":
            return _send(request, 200, b"<html>welcome</html>")
        return _send(request, 200, json.dumps(self._description(repo, model)).encode())

    def _description(self, repo: str, model: Mapping[str, Any]) -> dict[str, Any]:
        commit = "0" * 40 if self.fault == "other_commit" else model["commit"]
        card = {"license_name": "own-terms"}
        return {
            "id": repo,
            "sha": commit,
            "tags": ["pytorch", *model["tags"]],
            "cardData": card,
            "siblings": [
                _entry(p, data, p.endswith(model["in_lfs"])) for p, data in model["files"].items()
            ],
        }

    def _resolve(self, request: Any, repo: str, model: Mapping[str, Any], path: str) -> None:
        """A file, or where it is."""
        if path not in model["files"] or self.fault == "missing":
            return _send(request, 404, b"", {"X-Error-Code": "EntryNotFound"})
        commit = "0" * 40 if self.fault == "other_commit" else model["commit"]
        data = model["files"][path]
        headers = {"X-Repo-Commit": commit}
        if not path.endswith(model["in_lfs"]):
            headers["ETag"] = f'"{_entry(path, data, False)["blobId"]}"'
            return self._send_file(request, data, headers)
        sha256 = hashlib.sha256(data).hexdigest()
        headers |= {"X-Linked-Etag": f'"{sha256}"', "Location": f"{self._storage}/{repo}/{path}"}
        return _send(request, 302, b"", headers)

    def answer_file(self, request: Any, token: str) -> None:
        """Answers a request for a file in LFS."""
        _, org, name, path = request.path.split("/", 3)
        self._send_file(request, self._models[f"{org}/{name}"]["files"][path], {})

    def _send_file(self, request: Any, data: bytes, headers: Mapping[str, str]) -> None:
        if self.fault == "changed":
            data = bytes(len(data))
        match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        begin = int(match[1]) if match else 0
        status, more = 200, {"Accept-Ranges": "bytes"}
        if match:
            status = 206
            more["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        rest = data[begin:]
        sent = rest[: len(rest) // 3] if self.fault == "truncated" else rest
        _send(request, status, sent, {**headers, **more}, len(rest))


def _entry(path: str, data: bytes, in_lfs: bool) -> dict[str, Any]:
    """A file in the hub's list."""
    sha256 = hashlib.sha256(data).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(data)}\n"
    content = pointer.encode() if in_lfs else data
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    entry = {"rfilename": path, "blobId": git, "size": len(data)}
    if in_lfs:
        entry["lfs"] = {"sha256": sha256, "size": len(data), "pointerSize": len(content)}
    return entry


def _send(
    request: Any,
    status: int,
    data: bytes,
    headers: Mapping[str, str] | None = None,
    length: int | None = None,
) -> None:
    request.send_response(status)
    for name, value in (headers or {}).items():
        request.send_header(name, value)
    request.send_header("Content-Length", str(len(data) if length is None else length))
    request.end_headers()
    if request.command != "HEAD":
        request.wfile.write(data)
