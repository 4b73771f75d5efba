"""Makes the installer and the helpers beside this file importable; small wheels, a pip for them."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbours lie beside the links.
HERE = Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "toolchains/exporter/install")]

from fake_pip import FakePip, MakeWheel  # noqa: E402  (needs the path set above)


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """Writes a wheel into a folder of its own: make_wheel("a-1.0", {"a/__init__.py": b""})."""

    def make(stem: str, files: dict[str, bytes], modes: dict[str, int] | None = None) -> Path:
        path = tmp_path / "wheels" / f"{stem}-py3-none-any.whl"
        path.parent.mkdir(exist_ok=True)
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in files.items():
                info = zipfile.ZipInfo(name)
                info.external_attr = (modes or {}).get(name, 0o100644) << 16
                archive.writestr(info, data)
            archive.writestr(f"{stem}.dist-info/METADATA", f"Name: {stem}\n")
            archive.writestr(f"{stem}.dist-info/RECORD", "")
        return path

    return make


@pytest.fixture
def pip() -> FakePip:
    """A pip with an empty index."""
    return FakePip()
