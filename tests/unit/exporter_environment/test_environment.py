"""A whole environment of small wheels, with the interpreter's copy left out."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import pytest
from exporter_environment import bytecode, environment, interpreter, pip_tool, scripts
from exporter_environment.errors import InstallError
from exporter_environment.progress import Progress
from fake_pip import INSTALLER, LOCKS, REPOSITORY, FakePip, MakeWheel, sha256


@pytest.fixture
def index(pip: FakePip, make_wheel: MakeWheel, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    """A pip that has what an environment with a lite folder needs."""
    generated = "executorch/exir/_serialize/generated"
    pip.wheels = [
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
    monkeypatch.setattr(pip_tool, "find", lambda scratch: pip)

    def copy(source: interpreter.Interpreter, place: Path, get_patchelf: object) -> None:
        (place / "bin").mkdir(parents=True)
        (place / "bin" / source.executable_name).write_bytes(b"")
        (place / source.libdir / source.executable_name).mkdir(parents=True)
        (place / source.libdir / source.executable_name / "os.py").write_text("name = 'os'\n")

    monkeypatch.setattr(interpreter, "copy", copy)
    return pip


@pytest.fixture
def lock(index: FakePip, tmp_path: Path) -> Path:
    """A lock of all that the index has."""
    lines = [
        "{}=={} --hash=sha256:{}\n".format(*wheel.name.split("-")[:2], sha256(wheel))
        for wheel in index.wheels
    ]
    path = tmp_path / "lock.txt"
    path.write_text("".join(lines))
    return path


def make(lock: Path, output: Path, **settings: object) -> dict[str, object]:
    """Makes an environment and reads its environment.json."""
    request = environment.Request(
        locks=[lock],
        tools_lock=LOCKS / "tools.txt",
        output=output,
        python=sys.executable,
        jobs=2,
        **{"lite": True, **settings},  # type: ignore[arg-type]
    )
    environment.make(request, Progress())
    return json.loads((output / "environment.json").read_text())


def snapshot(root: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_contents(lock: Path, tmp_path: Path) -> None:
    """Packages without tests and records, with bytecode; the torch-free folder; the description."""
    description = make(lock, tmp_path / "env", scripts=("mark", "native"))
    found = set(snapshot(tmp_path / "env"))
    generated = "executorch/exir/_serialize/generated"
    assert {
        "site-packages/executorch/exir/__init__.py",
        "site-packages/executorch/exir/__pycache__/__init__.cpython-311.pyc",
        "site-packages/executorch-1.5.1.dist-info/METADATA",
        "site-packages/markupsafe/_speedups.so",
        f"lite/{generated}/executorch_flatbuffer/Program.py",
        f"lite/{generated}/executorch_flatbuffer/__pycache__/Program.cpython-311.pyc",
        "lite/jinja2/__init__.py",
        "lite/zstandard/backend_c.so",
        "bin/mark",
        "bin/native",
    } <= found
    assert (
        not {
            "site-packages/executorch/exir/tests/test_a.py",
            "site-packages/executorch-1.5.1.dist-info/RECORD",
            "lite/markupsafe/_speedups.so",
            "lite/jinja2/py.typed",
            "lite/zstandard/backend_cffi.py",
            "lite/zstandard/py.typed",
        }
        & found
    )
    for package in ("executorch", "executorch/exir", "executorch/exir/_serialize", generated):
        assert (tmp_path / "env/lite" / package / "__init__.py").read_bytes() == b""
    assert os.access(tmp_path / "env/bin/native", os.X_OK)
    assert description["versions"] == {
        "executorch": "1.5.1",
        "flatbuffers": "25.12.19",
        "jinja2": "3.1.6",
        "markupsafe": "3.0.4",
        "zstandard": "0.25.0",
    }
    assert description["lock_sha256"] == sha256(lock)
    assert not list((tmp_path / "env").glob(".*"))


def test_a_layer(lock: Path, tmp_path: Path) -> None:
    """What a base lacks, without interpreter and torch-free folder."""
    pins = lock.read_text().replace("\\\n", " ").splitlines()
    base = tmp_path / "base.txt"
    base.write_text("".join(f"{pin}\n" for pin in pins if not pin.startswith("markupsafe")))
    settings = {"layer": True, "base_locks": [base], "lite": False, "scripts": ("mark",)}
    description = make(lock, tmp_path / "env", **settings)
    assert description["versions"] == {"markupsafe": "3.0.4"}
    tops = {path.split("/")[0] for path in snapshot(tmp_path / "env")}
    assert tops == {"site-packages", "bin", "environment.json"}
    assert "RULES_EXECUTORCH_INTERPRETER" in (tmp_path / "env/bin/mark").read_text()


def test_same_bytes(lock: Path, tmp_path: Path) -> None:
    """Made twice, in different places: the same files, description and times of change."""
    one, two = tmp_path / "one", tmp_path / "some where/else"
    assert make(lock, one) == make(lock, two)
    assert snapshot(one) == snapshot(two)
    for folder in ("site-packages", "lite", "python/lib"):
        assert (one / folder).stat().st_mtime == (two / folder).stat().st_mtime
    assert str(tmp_path).encode() not in b"".join(snapshot(one).values())


def test_digest_follows_contents(
    index: FakePip, make_wheel: MakeWheel, lock: Path, tmp_path: Path
) -> None:
    """Another byte in a package: another digest and time of change, of that folder only."""
    before = make(lock, tmp_path / "one")
    old = sha256(index.wheels[2])
    index.wheels[2] = make_wheel("jinja2-3.1.6", {"jinja2/__init__.py": b"", "jinja2/x.txt": b"1"})
    lock.write_text(lock.read_text().replace(old, sha256(index.wheels[2])))
    after = make(lock, tmp_path / "two")
    assert before["digest"] != after["digest"]
    times = [(tmp_path / env / "site-packages").stat().st_mtime for env in ("one", "two")]
    assert times[0] != times[1]
    times = [(tmp_path / env / "python/lib").stat().st_mtime for env in ("one", "two")]
    assert times[0] == times[1]


def test_nothing_stays_after_a_failure(index: FakePip, lock: Path, tmp_path: Path) -> None:
    """A wrong file, a missing program, a failed download: no half-made environment."""
    with pytest.raises(InstallError, match="no package of the locks brings a program called vela"):
        make(lock, tmp_path / "env", scripts=("vela",))
    assert list((tmp_path / "env").iterdir()) == []
    lock.write_text(lock.read_text().replace(sha256(index.wheels[1]), "0" * 64))
    with pytest.raises(InstallError, match="not one that the lock names"):
        make(lock, tmp_path / "env")
    assert list((tmp_path / "env").iterdir()) == []
    index.failure = "ERROR: no space left\n"
    with pytest.raises(InstallError, match="pip failed"):
        make(lock, tmp_path / "env")
    assert list((tmp_path / "env").iterdir()) == []


def test_no_executorch(index: FakePip, lock: Path, tmp_path: Path) -> None:
    """The torch-free folder can't be made of packages without executorch."""
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("executorch")]
    lock.write_text("\n".join(lines) + "\n")
    with pytest.raises(InstallError, match="torch-free folder") as caught:
        make(lock, tmp_path / "env")
    assert "lite = False" in str(caught.value)


def test_not_over_another(lock: Path, tmp_path: Path) -> None:
    """An environment that is there is neither mixed with another nor deleted."""
    make(lock, tmp_path / "env")
    with pytest.raises(InstallError, match="holds an environment already"):
        make(lock, tmp_path / "env")
    assert (tmp_path / "env/environment.json").exists()


def test_bytecode(tmp_path: Path) -> None:
    """Hash-based and unchecked; what doesn't compile is left alone."""
    module, template = tmp_path / "m.py", tmp_path / "t.py"
    module.write_text("x = 1\n")
    template.write_text("{{ x }} ->\n")
    assert bytecode.compile_file(str(module), "place/m.py")
    assert not bytecode.compile_file(str(template), "place/t.py")
    data = Path(importlib.util.cache_from_source(str(module))).read_bytes()
    assert int.from_bytes(data[4:8], "little") == 0b01
    assert b"place/m.py" in data
    assert str(tmp_path).encode() not in data


def test_launchers() -> None:
    """Programs of packages start the environment's own Python, wherever it is."""
    text = scripts.launcher("vela", "ethosu.vela.vela:Main.run", "python3.11")
    assert text.startswith("#!/bin/sh\n")
    assert "from ethosu.vela.vela import Main\n" in text
    assert "Main.run()" in text
    assert "$root/python/bin/python3.11" in text
    assert scripts.entry_points("[console_scripts]\na = b:c [extra]\n[x]\ny = z\n") == {"a": "b:c"}
    assert scripts.entry_points("") == {}


def test_launchers_of_layers() -> None:
    """A layer has no Python: its programs take that of the process that starts them."""
    text = scripts.launcher("vela", "ethosu.vela.vela:main", scripts.LAYER)
    assert text.startswith("#!/bin/sh\n")
    assert "RULES_EXECUTORCH_INTERPRETER" in text
    assert "RULES_EXECUTORCH_PATH" in text
    assert "python/bin" not in text


def test_rule_knows_all_files() -> None:
    """The repository rule depends on every file of the installer."""
    rule = REPOSITORY / "toolchains/exporter/environment.bzl"
    if not rule.exists():
        pytest.skip("the rule's file is not an input of this test")
    listed = rule.read_text()
    for path in INSTALLER.rglob("*"):
        if path.suffix in (".py", ".toml"):
            assert f'"{path.relative_to(INSTALLER)}"' in listed
