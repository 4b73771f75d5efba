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

from helpers import MakeWheel, entry  # noqa: E402  (needs the path set above)
from install import interpreter  # noqa: E402
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
    """Settings that lead to the wheels of make_wheel only, and a scratch folder."""
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


@pytest.fixture
def wheels(origin: Origin, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The wheels that an environment with a lite folder needs, where pip finds them."""
    generated = "executorch/exir/_serialize/generated"
    wheels = [
        make_wheel(
            "executorch-1.5.1",
            {
                "executorch/exir/__init__.py": b"import torch\n",
                "executorch/exir/tests/test_a.py": b"",
                f"{generated}/__init__.py": b"import torch\n",
                f"{generated}/executorch_flatbuffer/__init__.py": b"",
                f"{generated}/executorch_flatbuffer/Program.py": b"class ProgramT: pass\n",
            },
        ),
        make_wheel("flatbuffers-25.12.19", {"flatbuffers/__init__.py": b""}),
        make_wheel("jinja2-3.1.6", {"jinja2/__init__.py": b"", "jinja2/py.typed": b""}),
        make_wheel(
            "zstandard-0.25.0",
            {
                "zstandard/__init__.py": b"",
                "zstandard/backend_c.so": b"",
                "zstandard/backend_cffi.py": b"",
                "zstandard/py.typed": b"",
            },
        ),
        make_wheel(
            "markupsafe-3.0.4",
            {
                "markupsafe/__init__.py": b"",
                "markupsafe/_speedups.so": b"",
                "markupsafe-3.0.4.dist-info/entry_points.txt": b"[console_scripts]\nmark=m:main\n",
                "markupsafe-3.0.4.data/scripts/native": b"#!/bin/sh\n",
            },
        ),
    ]

    def copy(source: interpreter.Interpreter, output: Path, origin: Origin) -> None:
        (output / "bin").mkdir(parents=True)
        (output / "bin" / source.name).write_bytes(b"")
        (output / source.libdir / source.name).mkdir(parents=True)
        (output / source.libdir / source.name / "os.py").write_text("name = 'os'\n")

    monkeypatch.setattr(interpreter, "copy", copy)
    return wheels


@pytest.fixture
def lock(wheels: list[Path], tmp_path: Path) -> Path:
    """A lock of all these wheels."""
    path = tmp_path / "lock.txt"
    path.write_text("".join(entry(wheel) for wheel in wheels))
    return path
