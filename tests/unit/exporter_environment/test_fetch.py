"""Files by hash, from where pip's settings lead; no code of a package runs."""

from __future__ import annotations

import base64
import hashlib
import http.server
import json
import os
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from fetch import cli, find, index, network, settings, tags
from fetch.index import FetchError, Wanted
from fetch.settings import Settings
from helpers import INSTALLER
from pip._vendor.packaging.tags import sys_tags

DATA = b"a wheel's bytes" * 5000
SHA256 = hashlib.sha256(DATA).hexdigest()
NAME = "demo_pkg-1.0-py3-none-any.whl"
LOGIN = "Basic " + base64.b64encode(b"me:se cret").decode()
ANY = tags.order(tags.platforms())
QUICK = {"retries": 0, "timeout": 5}

Answer = tuple[int, dict[str, str], bytes]


class Server:
    """Answers by path; remembers what was asked with which login."""

    def __init__(self) -> None:
        self.pages: dict[str, Answer | Callable[[], Answer]] = {}
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization")))
                answer = outer.pages.get(self.path, (404, {}, b""))
                status, headers, data = answer() if callable(answer) else answer
                self.send_response(status)
                headers = {"Content-Length": str(len(data)), **headers}
                for key, value in headers.items():
                    self.send_header(key, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def page(self, path: str, text: str, kind: str = "text/html") -> None:
        self.pages[path] = (200, {"Content-Type": kind}, text.encode())


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    running.pages[f"/files/{NAME}"] = (200, {}, DATA)
    yield running
    running.http.shutdown()
    running.http.server_close()


def wanted(sha256: str = SHA256, version: str = "1.0") -> Wanted:
    return Wanted("Demo.Pkg", version, frozenset({sha256, "0" * 64}), ANY)


def entry(requirement: str, *hashes: str, source: bool = False) -> dict[str, object]:
    """A file of a request."""
    return {
        "requirement": requirement,
        "sha256": sorted(hashes),
        "platform": "",
        "source": source,
        "indexes": [],
        "urls": {},
    }


def fetch(found: Settings, asked: Wanted, folder: Path) -> Path:
    """Plays Bazel: downloads what is found, with the login that comes with it and netrc."""
    files = {"a file": entry(str(asked), *asked.hashes)}
    failed: list[str] = []
    for _ in range(9):
        (place,) = find.find({"files": files, "failed": failed}, found).values()
        (url,) = place["urls"]
        login = ":".join(quote(word, safe="") for word in place["login"])
        folder.mkdir(exist_ok=True)
        path = folder / index.name_of(url)
        try:
            private = url.replace("//", f"//{login}@") if login else url
            network.Network(replace(found, find_links=(), index_urls=())).download(private, path)
        except OSError:
            path.unlink()
            failed.append(url)
            continue
        assert index.sha256_of(path) == place["sha256"]
        return path
    raise AssertionError


def links(*entries: str) -> str:
    return "<!DOCTYPE html>" + "".join(f'<a href="{e}" data-yanked="">x</a><br>' for e in entries)


_JSON = {"files": [{"filename": NAME, "url": f"../../files/{NAME}", "hashes": {"sha256": SHA256}}]}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("text/html", links(f"/files/{NAME}#sha256={SHA256}")),
        ("text/html; charset=utf-8", links(f"../../files/{NAME}#sha256={SHA256}")),
        ("application/vnd.pypi.simple.v1+html", links(f"/files/{NAME}")),
        ("text/html", f'<base href="/files/">{links(NAME)}'),
        ("text/html", links(f"/files/{NAME}?x=1#md5=ab&amp;sha256={SHA256}")),
        ("application/vnd.pypi.simple.v1+json", json.dumps(_JSON)),
        # Others come first: another version, another build, another package, a source.
        (
            "text/html",
            links(
                "/files/demo_pkg-2.0-py3-none-any.whl",
                f"/files/demo_pkg-1.0+cu1-py3-none-any.whl#sha256={'1' * 64}",
                "/files/demo-1.0-py3-none-any.whl",
                "/files/demo_pkg-1.0-cp27-cp27m-win32.whl",
                "/files/demo_pkg-1.0.tar.gz",
                f"/files/{NAME}",
            ),
        ),
    ],
)
@pytest.mark.few(3)
def test_pages_of_indexes(server: Server, tmp_path: Path, kind: str, text: str) -> None:
    """Each form of a simple index: with hashes or without, relative, with a base, JSON."""
    server.page("/simple/demo-pkg/", text, kind)
    if "?" in text:
        server.pages[f"/files/{NAME}?x=1"] = server.pages[f"/files/{NAME}"]
    path = fetch(Settings((f"{server.url}/simple/",), **QUICK), wanted(), tmp_path)
    assert path.read_bytes() == DATA
    assert path.name == NAME
    # Without a hash the file is read to know it.
    assert len(server.asked) == (2 if SHA256 in text else 3), server.asked
    assert [p.name for p in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize(
    "form", ["folder", "folder URL", "file", "file URL", "page on disk", "page", "index"]
)
@pytest.mark.few(3)
def test_places(server: Server, tmp_path: Path, form: str) -> None:
    """find-links as a folder, a file, a page; an index on disk."""
    shelf = tmp_path / "a shelf"
    shelf.mkdir()
    (shelf / NAME).write_bytes(DATA)
    server.page("/list.html", links(f"files/{NAME}"))
    (tmp_path / "list.html").write_text(links(f"a%20shelf/{NAME}"))
    (tmp_path / "simple/demo-pkg").mkdir(parents=True)
    (tmp_path / "simple/demo-pkg/index.html").write_text(links(f"../../a%20shelf/{NAME}"))
    chosen = {
        "folder": Settings(find_links=(str(shelf),)),
        "folder URL": Settings(find_links=(shelf.as_uri(),)),
        "file": Settings(find_links=(str(shelf / NAME),)),
        "file URL": Settings(find_links=(f"{server.url}/files/{NAME}#sha256={SHA256}",)),
        "page on disk": Settings(find_links=(str(tmp_path / "list.html"),)),
        "page": Settings(find_links=(f"{server.url}/list.html",)),
        "index": Settings(index_urls=((tmp_path / "simple").as_uri() + "/",)),
    }[form]
    path = fetch(chosen, wanted(), tmp_path / "out")
    assert path.read_bytes() == DATA
    assert (shelf / NAME).exists()


@pytest.mark.parametrize("form", ["URL", "netrc", "none"])
def test_logins(server: Server, tmp_path: Path, form: str) -> None:
    """Of the URL or of netrc, for the files as well; never for another host, never in a message."""
    other = Server()
    other.pages[f"/{NAME}"] = (200, {}, DATA)
    away = other.url.replace("127.0.0.1", "localhost")
    server.page("/simple/demo-pkg/", links(f"/files/{NAME}"))
    server.pages[f"/files/{NAME}"] = (302, {"Location": f"{away}/{NAME}"}, b"")
    netrc = tmp_path / "netrc"
    netrc.write_text('machine 127.0.0.1 login me password "se cret"\n' if form == "netrc" else "")
    url = server.url.replace("//", "//me:se%20cret@") if form == "URL" else server.url
    found = Settings((f"{url}/simple/",), netrc=str(netrc), **QUICK)
    assert fetch(found, wanted(), tmp_path / "out").read_bytes() == DATA
    assert {login for _, login in server.asked} == {None if form == "none" else LOGIN}
    assert {login for _, login in other.asked} == {None}
    with pytest.raises(FetchError) as caught:
        fetch(found, wanted("2" * 64), tmp_path / "out")
    assert "cret" not in str(caught.value)
    other.http.shutdown()


def test_what_passes_is_tried_again(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is busy, then sends half of a file; a missing page is final."""
    monkeypatch.setattr(network.time, "sleep", lambda _: None)
    answers: list[Answer] = [
        (503, {}, b""),
        (200, {"Content-Length": str(len(DATA))}, DATA[:99]),
        (200, {}, DATA),
    ]
    server.page("/simple/demo-pkg/", links(f"/files/{NAME}#sha256={SHA256}"))
    server.pages[f"/files/{NAME}"] = lambda: answers.pop(0)
    urls = (f"{server.url}/none/", f"{server.url}/simple/")
    assert fetch(Settings(urls, retries=2), wanted(), tmp_path).read_bytes() == DATA
    assert [path for path, _ in server.asked].count("/none/demo-pkg/") == 1


def test_messages(server: Server, tmp_path: Path) -> None:
    """Unreachable, refused, another file, none; each with the place and what to do."""

    def message(*urls: str, version: str = "1.0") -> str:
        with pytest.raises(FetchError) as caught:
            found = Settings(tuple(f"{url}/" for url in urls), **QUICK)
            fetch(found, wanted("2" * 64, version), tmp_path)
        assert not list(tmp_path.iterdir())
        return str(caught.value)

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        text = message(nobody)
    assert text.startswith("Demo.Pkg==1.0: no wheel for this machine could be fetched, expected sh")
    assert f"\n  {nobody}/demo-pkg/: Connection refused" in text
    server.pages["/private/demo-pkg/"] = (403, {}, b"")
    assert f"{server.url}/private/demo-pkg/: HTTP status 403" in message(f"{server.url}/private")
    server.page("/simple/demo-pkg/", links(f"/files/{NAME}"))
    text = message(f"{server.url}/simple")
    assert f"the file is not the one in the lock: got {NAME} (sha256 {SHA256}), expected" in text
    assert "or one of 1 more" in text
    text = message(f"{server.url}/simple", version="3.0")
    assert f"found in {server.url}/simple/demo-pkg/, expected sha256" in text
    server.page("/bad/demo-pkg/", "{", "application/json")
    assert f"\n  {server.url}/bad/demo-pkg/: " in message(f"{server.url}/bad")
    assert "no wheel for this machine found in no place, expected" in message()
    unknown = Settings(find_links=(str(tmp_path),), index_is_unknown=True)
    with pytest.raises(FetchError, match="name no package index, and no pip is found"):
        fetch(unknown, wanted(), tmp_path)


def test_nothing_of_a_package_runs(tmp_path: Path) -> None:
    """A source archive whose setup.py would leave a mark, by the command of repository rules."""
    shelf = tmp_path / "shelf"
    (shelf / "demo-1.0").mkdir(parents=True)
    mark = tmp_path / "ran"
    for name in ("setup.py", "backend.py"):
        (shelf / "demo-1.0" / name).write_text(f"open({str(mark)!r}, 'w')\n")
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (shelf / "demo-1.0/pyproject.toml").write_text(project)
    archive = shelf / "demo-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(shelf / "demo-1.0", "demo-1.0")
    sha256 = index.sha256_of(archive)
    request = tmp_path / "request.json"
    request.write_text(
        json.dumps({"files": {"x": entry("demo==1.0", sha256, source=True)}, "failed": []})
    )
    command = [sys.executable, "-I", "-B", str(INSTALLER.parent / "fetch"), str(request)]
    environment = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf), "HOME": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    place = json.loads(done.stdout)["x"]
    assert (place["urls"], place["sha256"]) == ([archive.as_uri()], sha256)
    assert not mark.exists()


def test_the_command_fails_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"files": {"x": entry("a==1", SHA256)}, "failed": []}))
    assert cli.main([str(request)]) == 1
    assert capsys.readouterr().err.startswith("error: a==1: no wheel for this machine found in ")


def test_what_bazel_cannot_download(server: Server, tmp_path: Path) -> None:
    """Another place is asked; in the end the message has both, and where Bazel has settings."""
    (tmp_path / "shelf").mkdir()
    (tmp_path / "shelf" / NAME).write_bytes(DATA)
    server.page("/simple/demo-pkg/", links(f"/files/{NAME}#sha256={SHA256}"))
    found = Settings(
        (f"{server.url}/simple/",), (str(tmp_path / "shelf"),), cert=str(tmp_path), **QUICK
    )
    urls = [(tmp_path / "shelf" / NAME).as_uri(), f"{server.url}/files/{NAME}"]
    files = {"x": entry("demo-pkg==1.0", SHA256)}
    for count in range(2):
        place = find.find({"files": files, "failed": urls[:count]}, found)["x"]
        assert place["urls"] == [urls[count]]
    with pytest.raises(FetchError) as caught:
        find.find({"files": files, "failed": urls}, found)
    assert all(f"\n  {url}: Bazel could not download it" in str(caught.value) for url in urls)
    assert "cert (Bazel's: startup --host_jvm_args=-Djavax" in str(caught.value)
    assert "https_proxy" not in str(caught.value)


@pytest.mark.parametrize("platform", ["manylinux_2_28_x86_64", "macosx_14_0_arm64"])
def test_known_urls(platform: str) -> None:
    """The best of them for the platform; no other place is asked, and all mirrors are told."""
    stems = {
        "a": "demo-1.0-py3-none-any.whl",
        "b": "demo-1.0%2Bcpu-cp311-cp311-manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl",
        "c": "demo-1.0-cp311-cp311-macosx_14_0_arm64.whl",
    }
    urls = {s * 64: [f"https://x/{stem}", "http://mirror/y"] for s, stem in stems.items()}
    sha256 = {"manylinux_2_28_x86_64": "b", "macosx_14_0_arm64": "c"}[platform] * 64
    asked = entry("demo==1.0", *urls) | {"platform": platform, "urls": urls}
    place = find.find(
        {"files": {"x": asked}, "failed": []}, Settings(("https://nowhere.invalid/",))
    )
    assert place == {"x": {"urls": urls[sha256], "sha256": sha256, "login": (), "known": True}}


def test_an_index_for_one_package(tmp_path: Path) -> None:
    """The settings lead to another build: the index that is asked last has the right one."""
    for folder, data in (("settings", b"CUDA"), ("cpu", DATA)):
        (tmp_path / folder / "torch").mkdir(parents=True)
        name = "torch-2.13.0+cpu-py3-none-any.whl"
        (tmp_path / folder / "torch" / name).write_bytes(data)
        (tmp_path / folder / "torch/index.html").write_text(links(name))
    found = Settings(((tmp_path / "settings").as_uri() + "/",))
    asked = entry("torch==2.13.0", SHA256) | {"indexes": [(tmp_path / "cpu").as_uri()]}
    place = find.find({"files": {"x": asked}, "failed": []}, found)["x"]
    assert place["urls"] == [f"{(tmp_path / 'cpu').as_uri()}/torch/{name}"]
    with pytest.raises(FetchError, match="the file is not the one in the lock: got torch-2.13.0"):
        find.find({"files": {"x": asked | {"indexes": []}}, "failed": []}, found)


_USER = "[global]\nindex-url = https://user.example/simple\nfind_links = /one\n  /two\ncert = /c\n"
_DOWNLOAD = "[global]\nextra-index-url = https://g/\n[download]\nextra-index-url = https://d/ /e\n"


@pytest.mark.parametrize(
    ("files", "variables", "expected"),
    [
        ({"home/.config/pip/pip.conf": _USER}, {}, ("https://user.example/simple/", "/one,/two")),
        ({"home/.pip/pip.conf": _USER}, {}, ("https://user.example/simple/", "/one,/two")),
        # A variable goes before a file, option by option; a chosen file replaces the user's.
        (
            {"home/.config/pip/pip.conf": _USER},
            {"PIP_INDEX_URL": "https://v/", "PIP_EXTRA_INDEX_URL": "https://w https://x/"},
            ("https://v/ https://w/ https://x/", "/one,/two"),
        ),
        (
            {"home/.config/pip/pip.conf": _USER, "mine": "[global]\nindex-url=https://mine\n"},
            {"PIP_CONFIG_FILE": "{root}/mine"},
            ("https://mine/", ""),
        ),
        (
            {"home/.config/pip/pip.conf": _USER},
            {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "https://v"},
            ("https://v/", ""),
        ),
        (
            {"etc/pip/pip.conf": _DOWNLOAD, "home/.config/pip/pip.conf": _USER},
            {},
            ("https://user.example/simple/ https://d/ /e/", "/one,/two"),
        ),
        ({"home/.config/pip/pip.conf": _USER}, {"PIP_NO_INDEX": "1"}, ("", "/one,/two")),
        ({"home/.config/pip/pip.conf": "malformed"}, {"PIP_INDEX_URL": "x"}, ("x/", "")),
    ],
)
def test_settings(
    tmp_path: Path, files: dict[str, str], variables: dict[str, str], expected: tuple[str, str]
) -> None:
    """pip's files and variables, with the precedence that pip gives them."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_DIRS": str(tmp_path / "etc"),
        **{key: value.format(root=tmp_path) for key, value in variables.items()},
    }
    found = settings.read(environment)
    assert (" ".join(found.index_urls), ",".join(found.find_links)) == expected


def test_other_settings() -> None:
    found = settings.read(
        {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": "https://v",
            "PIP_DEFAULT_TIMEOUT": "7",
            "PIP_RETRIES": "1",
            "PIP_TRUSTED_HOST": "a b:8443",
            "PIP_PROXY": "proxy:3128",
            "REQUESTS_CA_BUNDLE": "/bundle",
        }
    )
    assert (found.timeout, found.retries, found.proxy) == (7, 1, "proxy:3128")
    assert (found.trusted_hosts, found.cert) == ({"a", "b:8443"}, "/bundle")


def test_the_default_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pip says it: the interpreter's, one in a wheel; without any there is none."""
    known = tmp_path / "pip-26.0-py3-none-any.whl"
    package = known / "pip/_internal/models"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "index.py").write_text("class PyPI:\n    simple_url = 'https://default/simple'\n")
    monkeypatch.setattr(settings, "_WHEEL_FOLDERS", (str(tmp_path),))
    # Debian's interpreter names a folder of wheels.
    monkeypatch.setattr(settings.sysconfig, "get_config_var", lambda _: None)
    bare = tmp_path / "bin/python3"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(settings.sys, "executable", str(bare))
    environment = {"PIP_CONFIG_FILE": os.devnull}
    assert settings.read(environment).index_urls == ("https://default/simple/",)
    monkeypatch.setattr(settings.subprocess, "run", lambda *_, **__: _Failed())
    found = settings.read(environment)
    assert (found.index_urls, found.index_is_unknown) == ((), True)
    assert not settings.read({**environment, "PIP_NO_INDEX": "1"}).index_is_unknown
    assert not settings.read({**environment, "PIP_INDEX_URL": "x"}).index_is_unknown


class _Failed:
    returncode, stdout = 1, ""


def test_tags_of_this_machine() -> None:
    """The packaging standard's own list, in its order."""
    expected = [(t.interpreter, t.abi, t.platform) for t in sys_tags()]
    expected = [
        tag for tag in expected if not tag[2].startswith(("musllinux", "linux_i", "linux_a"))
    ]
    got = list(ANY)
    assert [tag for tag in got if tag in expected] == [tag for tag in expected if tag in got]
    assert set(expected) - set(got) == {tag for tag in expected if tag not in got}
    missing = {tag for tag in expected if tag not in got}
    assert not missing, sorted(missing)[:5]


@pytest.mark.parametrize(
    ("platform", "fits", "does_not"),
    [
        ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux_2_31_aarch64"),
        ("manylinux_2_28_x86_64", "manylinux2014_x86_64", "manylinux_2_28_aarch64"),
        ("macosx_14_0_arm64", "macosx_11_0_universal2", "macosx_15_0_arm64"),
        ("macosx_14_0_arm64", "macosx_10_9_universal2", "macosx_10_9_x86_64"),
        ("win_amd64", "win_amd64", "win32"),
    ],
)
def test_tags_of_other_machines(platform: str, fits: str, does_not: str) -> None:
    names = tags.platforms(platform)
    assert fits in names
    assert does_not not in names
    assert tags.rank(f"a-1-cp311-cp311-{fits}.whl", tags.order(names)) is not None
    assert tags.rank(f"a-1-2build-cp310-abi3-{does_not}.{fits}.whl", tags.order(names)) is not None
    assert tags.rank(f"a-1-cp311-cp311-{does_not}.whl", tags.order(names)) is None
