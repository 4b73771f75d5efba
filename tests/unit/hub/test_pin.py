"""`et pin` on a fake hub, which answers as the hub does, lies or refuses."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from ethub import client
from fake_hub import FakeHub
from pinning import Pin

FILES = {
    "tokenizer.json": b'{"model": {}}',
    "model.safetensors": bytes(range(256)) * 40,
    "config.json": b'{"model_type": "llama"}',
    ".gitattributes": b"*.safetensors filter=lfs\n",
    "README.md": b"# A model\n",
    "pytorch_model.bin": b"b" * 99,
    "onnx/model.safetensors": b"o" * 99,
}
PINNED = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture
def commit(hub: FakeHub) -> str:
    return hub.add("org/Tiny-Llama.1B", FILES)


def sha256(path: str) -> str:
    return hashlib.sha256(FILES[path]).hexdigest()


def test_the_tag(pin: Pin, commit: str) -> None:
    result = pin("org/Tiny-Llama.1B")
    files = "".join(f'        "{path}": "{sha256(path)}",\n' for path in PINNED)
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "executorch.hugging_face(\n"
        '    name = "tiny_llama_1b",\n'
        f"    files = {{\n{files}    }},\n"
        '    license = "Apache-2.0",\n'
        '    repo = "org/Tiny-Llama.1B",\n'
        f'    revision = "{commit}",\n'
        ")\n"
        'use_repo(executorch, "tiny_llama_1b")\n'
    )


def test_the_tag_is_the_same_again(pin: Pin, commit: str) -> None:
    assert pin("org/Tiny-Llama.1B") == pin("org/Tiny-Llama.1B", "--revision", commit)


def test_only_small_files_are_downloaded(pin: Pin, hub: FakeHub, commit: str) -> None:
    assert pin("org/Tiny-Llama.1B").code == 0
    read = [path.rpartition("/")[2] for _, path, _ in hub.requests if "/resolve/" in path]
    assert sorted(read) == ["config.json", "tokenizer.json"]
    assert {server for server, _, _ in hub.requests} == {"hub"}


def test_include_selects_files(pin: Pin, commit: str) -> None:
    result = pin("org/Tiny-Llama.1B", "--include", "onnx/*", "--include=*.md", "--json")
    value = json.loads(result.out)
    assert list(value["files"]) == ["README.md", "onnx/model.safetensors"]


def test_nothing_is_selected(pin: Pin, commit: str) -> None:
    result = pin("org/Tiny-Llama.1B", "--include", "*.gguf")
    assert (result.code, result.out) == (2, "")
    assert "no file is selected: got 7 files, expected some of *.gguf." in result.err


@pytest.mark.parametrize(
    ("license", "expected"),
    [
        ("mit", "MIT"),
        ("gpl-3.0", "GPL-3.0-only"),
        ("cc-by-nc-sa-4.0", "CC-BY-NC-SA-4.0"),
        ("llama3.2", "LicenseRef-llama3.2"),
        ("other", "LicenseRef-own-terms"),
    ],
)
def test_the_license(pin: Pin, hub: FakeHub, license: str, expected: str) -> None:
    hub.add("org/net", {"model.safetensors": b"1"}, license=license)
    result = pin("org/net")
    assert result.err == "" and f'    license = "{expected}",\n' in result.out


@pytest.mark.parametrize("license", ["", "unknown", "cc"])
def test_an_unknown_license(pin: Pin, hub: FakeHub, license: str) -> None:
    hub.add("org/net", {"model.safetensors": b"1"}, license=license)
    result = pin("org/net")
    assert result.code == 0 and '    license = "",\n' in result.out
    assert "the hub does not say which license it has" in result.err


def test_a_gated_model(
    pin: Pin, hub: FakeHub, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.fault = "gated"
    result = pin("org/Tiny-Llama.1B")
    assert (result.code, result.out) == (2, "")
    assert "the model is gated: got status 401, and no token is set." in result.err
    assert f"Accept the license at {hub.endpoint}/org/Tiny-Llama.1B, and set HF_TOKEN" in result.err
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert "got status 401, and the token was not accepted." in pin("org/Tiny-Llama.1B").err
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert pin("org/Tiny-Llama.1B").code == 0


def test_a_token_of_netrc(pin: Pin, hub: FakeHub, commit: str, tmp_path: Path) -> None:
    hub.fault = "gated"
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {hub.token}\n")
    (tmp_path / "netrc").chmod(0o600)
    assert pin("org/Tiny-Llama.1B").code == 0


def test_a_malformed_token(
    pin: Pin, hub: FakeHub, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message does not have it."""
    monkeypatch.setenv("HF_TOKEN", "hf_se\ncret")
    result = pin("org/Tiny-Llama.1B")
    assert result.code == 2 and "HF_TOKEN: got spaces or control characters" in result.err
    assert "cret" not in result.err and hub.requests == []


def test_the_token_stays_with_the_hub(hub: FakeHub, commit: str) -> None:
    """The server of large files, to which the hub redirects, must not see it."""
    answer = client.Hub(hub.endpoint, hub.token).open(
        "org/Tiny-Llama.1B", commit, "model.safetensors"
    )
    assert b"".join(client.chunks(answer, "")) == FILES["model.safetensors"]
    assert {(server, token) for server, _, token in hub.requests} == {
        ("hub", f"Bearer {hub.token}"),
        ("files", ""),
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["org/other"], "the model does not exist or is private: got status 401, and no token"),
        (
            ["org/Tiny-Llama.1B", "--revision", "v9"],
            "org/Tiny-Llama.1B at v9: not found: got status 404 RevisionNotFound.",
        ),
        (["org/../x"], '"org/../x": got no name of a model, expected "organization/model".'),
    ],
)
def test_no_such_model(pin: Pin, commit: str, arguments: list[str], message: str) -> None:
    result = pin(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("changed", "config.json of org/Tiny-Llama.1B at"),
        ("changed", "the file arrived truncated or changed: got git hash"),
        ("down", "got status 503 from 127.0.0.1:"),
        ("loop", "got a loop of redirects at http://127.0.0.1:"),
        ("missing", "not found: got status 404 EntryNotFound."),
        ("other_commit", "the hub answered with another commit: got '00000000"),
        ("text", "the hub's answer is malformed: got '<html>welcome</html>', expected JSON."),
        ("truncated", "the file arrived truncated or changed: got 7 bytes, expected 23 bytes."),
    ],
)
def test_a_hub_that_lies(
    pin: Pin,
    hub: FakeHub,
    commit: str,
    fault: str,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    hub.fault = fault
    result = pin("org/Tiny-Llama.1B", "--revision", commit)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_too_many_requests(hub: FakeHub, commit: str) -> None:
    waits: list[float] = []
    hub.fault, hub.busy, hub.retry_after = "busy", 2, "7"
    model = client.Hub(hub.endpoint, sleep=waits.append).model("org/Tiny-Llama.1B", "main")
    assert (model.commit, waits) == (commit, [7, 7])


@pytest.mark.parametrize(("retry_after", "waits"), [("7", [7] * 4), ("100000", [])])
def test_too_many_requests_for_ever(
    hub: FakeHub, commit: str, retry_after: str, waits: list[float]
) -> None:
    slept: list[float] = []
    hub.fault, hub.busy, hub.retry_after = "busy", 99, retry_after
    with pytest.raises(client.HubError) as error:
        client.Hub(hub.endpoint, sleep=slept.append).model("org/Tiny-Llama.1B", "main")
    assert f"Try again in {retry_after} seconds" in error.value.hint
    assert slept == waits


def test_a_hub_that_cannot_be_reached(
    pin: Pin, hub: FakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    assert "127.0.0.1:1 cannot be reached: [Errno 111] Connection refused." in pin("org/x").err
    monkeypatch.setenv("HF_ENDPOINT", "hub.example")
    assert 'HF_ENDPOINT: got "hub.example", expected an address' in pin("org/x").err


@pytest.mark.parametrize(
    "path",
    [
        "../x.json",
        "/x.json",
        "a//x.json",
        "a\nb.json",
        "x/BUILD.bazel",
        "Build",
        "a b.json",
        'a".json',
    ],
)
def test_hostile_paths(pin: Pin, hub: FakeHub, path: str) -> None:
    hub.add("org/net", {"model.safetensors": b"1", path: b"2"})
    result = pin("org/net", "--include", "*")
    assert (result.code, result.out) == (2, "")
    assert "expected a path that a repository can have" in result.err


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "file", "path": 3}, "expected entries with a path."),
        ({"type": "file", "path": "x", "size": "9", "oid": "0" * 40}, "the size of 'x'"),
        ({"type": "file", "path": "x", "size": 9, "oid": "zz"}, "the git hash of 'x' as oid"),
        (
            {"type": "file", "path": "x", "size": 9, "oid": "0" * 40, "lfs": {"oid": "zz"}},
            "the sha256 of 'x' as lfs.oid",
        ),
        ({"type": "file", "path": "x", "size": 9, "oid": "0" * 40, "lfs": []}, "as lfs.oid"),
    ],
)
def test_malformed_lists(
    pin: Pin, commit: str, entry: object, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fake_hub._entry", lambda *_: entry)
    result = pin("org/Tiny-Llama.1B")
    assert (result.code, result.out) == (2, "")
    assert "the hub's answer is malformed" in result.err and message in result.err
