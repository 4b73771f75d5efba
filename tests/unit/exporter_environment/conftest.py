"""Makes the installer and the helpers beside this file importable; wheels for them."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import zipfile
from pathlib import Path

import pip as pip_package
import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
HERE = Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parents[2] / "toolchains/exporter")]

from helpers import MakeWheel  # noqa: E402  (needs the path set above)
from install.packages import Origin  # noqa: E402
from lock.pip_tool import Pip  # noqa: E402

# The test's interpreter has pip on its path only, which -I leaves out.
COMMAND = (sys.executable, "-B", os.path.dirname(pip_package.__file__))


@pytest.fixture
def make_wheel(tmp_path: Path) -> MakeWheel:
    """Writes a wheel where pip finds it: make_wheel("a-1.0", {"a/__init__.py": b""})."""

    def make(stem: str, files: dict[str, bytes], modes: dict[str, int] | None = None) -> Path:
        path = tmp_path / "wheels" / f"{stem}-py3-none-any.whl"
        path.parent.mkdir(exist_ok=True)
        name, version = stem.split("-")
        info = f"{stem}.dist-info"
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        files = {
            **files,
            f"{info}/METADATA": metadata.encode(),
            f"{info}/WHEEL": wheel.encode(),
        }
        record = f"{info}/RECORD,,\n"
        for member, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{member},sha256={digest},{len(data)}\n"
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in {**files, f"{info}/RECORD": record.encode()}.items():
                entry = zipfile.ZipInfo(member)
                entry.external_attr = (modes or {}).get(member, 0o100644) << 16
                archive.writestr(entry, data)
        return path

    return make


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Origin:
    """What this test's settings lead to: the wheels of make_wheel only."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "wheels").mkdir(exist_ok=True)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "empty").as_uri())
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    (tmp_path / "scratch").mkdir()
    return Origin(tmp_path / "scratch")


@pytest.fixture
def pip(origin: Origin) -> Pip:
    """A real pip, with these settings."""
    return Pip(origin.scratch, COMMAND)
