"""The SDK of a vendor for builders, and the messages where it is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from etbuild import BuildError
from vendor_sdk import Sdk

_SDK = Sdk("//:recipe", "npu", "Our NPU SDK")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an SDK that the environment names."""
    monkeypatch.setenv("EXECUTORCH_SDK_NPU", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an SDK the message says what to write where."""
    monkeypatch.delenv("EXECUTORCH_SDK_NPU", raising=False)
    with pytest.raises(BuildError, match="//:recipe: Our NPU SDK is not given") as caught:
        _SDK.folder()
    assert 'executorch.sdk(backend = "npu", path = "…")' in str(caught.value)


def test_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that isn't there is none."""
    monkeypatch.setenv("EXECUTORCH_SDK_NPU", str(folder / "gone"))
    with pytest.raises(BuildError, match="is not given"):
        _SDK.folder()


def test_file(folder: Path) -> None:
    """A file is found by its path in the SDK."""
    (folder / "lib").mkdir()
    (folder / "lib/libnpu.so").touch()
    assert _SDK.file("lib/libnpu.so") == folder / "lib/libnpu.so"


def test_file_missing(folder: Path) -> None:
    """Of a file that isn't there, the message lists what is."""
    with pytest.raises(BuildError, match=r"has no lib/libnpu\.so; the folder is empty\."):
        _SDK.file("lib/libnpu.so")
    for name in "abcdefghij":
        (folder / name).touch()
    wanted = r"the folder has: a, b, c, d, e, f, g, h and 2 more\."
    with pytest.raises(BuildError, match=wanted):
        _SDK.file("lib/libnpu.so")


def test_library_broken(folder: Path) -> None:
    """A file that is no library is named with the loader's reason."""
    (folder / "libnpu.so").write_text("no library, but long enough for a header " * 9)
    with pytest.raises(BuildError, match=r"libnpu\.so of Our NPU SDK cannot be loaded: .*ELF"):
        _SDK.preload("libnpu.so")


def test_modules(folder: Path) -> None:
    """A package that the SDK brings is found, one that it lacks is named."""
    (folder / "npu_compiler").mkdir()
    (folder / "npu_compiler/__init__.py").touch()
    _SDK.need_modules("npu_compiler")
    wanted = (
        "the Python package npu_runtime of Our NPU SDK is missing; the folder has: npu_compiler"
    )
    with pytest.raises(BuildError, match=wanted) as caught:
        _SDK.need_modules("npu_compiler", "npu_runtime")
    assert "pip install --no-deps --target FOLDER" in str(caught.value)


def test_imported(folder: Path) -> None:
    """An import that fails in the SDK's code is said with its reason."""
    (folder / "npu_broken.py").write_text("import npu_license_server\n")
    wanted = "npu_broken cannot be imported with Our NPU SDK: No module named 'npu_license_server'"
    with pytest.raises(BuildError, match=wanted):
        _SDK.imported("npu_broken")
    (folder / "npu_whole.py").write_text("ANSWER = 42\n")
    assert _SDK.imported("npu_whole").ANSWER == 42
    del sys.modules["npu_whole"]
