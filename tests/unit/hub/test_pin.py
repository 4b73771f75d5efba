"""`et pin` on a fake hub, which answers as the hub does, lies or refuses."""

from __future__ import annotations

import hashlib
import json

import pytest
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
    read = {path.rpartition("/")[2] for _, path, _ in hub.requests if "/resolve/" in path}
    assert read == {"config.json", "tokenizer.json"}
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
    assert "org/Tiny-Llama.1B at main: the model is gated. Accept the license at" in result.err
    assert f"{hub.endpoint}/org/Tiny-Llama.1B, and set HF_TOKEN" in result.err
    monkeypatch.setenv("HF_TOKEN", hub.token)
    assert pin("org/Tiny-Llama.1B").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["org/other"], "org/other at main: the model does not exist or is private."),
        (
            ["org/Tiny-Llama.1B", "--revision", "v9"],
            "org/Tiny-Llama.1B at v9: the revision does not exist.",
        ),
        (["org/../x"], '"org/../x": got no name of a model, expected "organization/model".'),
    ],
)
def test_no_such_model(pin: Pin, commit: str, arguments: list[str], message: str) -> None:
    result = pin(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


@pytest.mark.parametrize("fault", ["changed", "down", "loop", "missing", "text", "truncated"])
def test_a_hub_that_lies(
    pin: Pin, hub: FakeHub, commit: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    hub.fault = fault
    result = pin("org/Tiny-Llama.1B", "--revision", commit)
    assert (result.code, result.out) == (2, "")
    assert f"at {commit}: got no usable answer from {hub.endpoint}: " in result.err
    assert "Check the network, HF_ENDPOINT and HF_TOKEN" in result.err


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1", "hub.example"])
def test_a_hub_that_cannot_be_reached(
    pin: Pin, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert f"org/x at main: got no usable answer from {endpoint}: " in pin("org/x").err


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
    "entry",
    [
        {"rfilename": 3},
        {"rfilename": "x.bin", "lfs": {"sha256": "zz", "size": 1, "pointerSize": 1}},
        {"rfilename": "x.bin", "lfs": []},
        {"rfilename": "x.bin", "lfs": {"size": 1}},
        {},
    ],
)
def test_malformed_lists(
    pin: Pin, commit: str, entry: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fake_hub._entry", lambda *_: entry)
    result = pin("org/Tiny-Llama.1B")
    assert (result.code, result.out) == (2, "")
    assert "got no usable answer from" in result.err
