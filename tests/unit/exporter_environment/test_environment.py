"""A whole environment of small wheels, with the interpreter's copy left out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from helpers import INSTALLER, REPOSITORY, MakeWheel, create, lay_files, sha256, snapshot
from install import bytecode, environment, scripts
from install.errors import InstallError
from install.files import MissingFilesError


def test_contents(lock: Path, tmp_path: Path) -> None:
    """Packages without tests and records, with bytecode; the torch-free folder; the description."""
    description = create(lock, tmp_path / "env", scripts=["mark", "native"])
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
    """A layer holds what a base lacks, without interpreter and torch-free folder."""
    pins = lock.read_text().splitlines()
    base = tmp_path / "base.txt"
    base.write_text("".join(f"{pin}\n" for pin in pins if not pin.startswith("markupsafe")))
    settings = {"base_locks": [base], "lite": False, "scripts": ["mark"]}
    description = create(lock, tmp_path / "env", **settings)
    assert description["versions"] == {"markupsafe": "3.0.4"}
    tops = {path.split("/")[0] for path in snapshot(tmp_path / "env")}
    assert tops == {"site-packages", "bin", "environment.json"}
    assert "RULES_EXECUTORCH_INTERPRETER" in (tmp_path / "env/bin/mark").read_text()


def test_same_bytes(lock: Path, tmp_path: Path) -> None:
    """Made twice, in different places: the same files, description and times of change."""
    one, two = tmp_path / "one", tmp_path / "some where/else"
    assert create(lock, one) == create(lock, two)
    assert snapshot(one) == snapshot(two)
    for folder in ("site-packages", "lite", "python/lib"):
        assert (one / folder).stat().st_mtime == (two / folder).stat().st_mtime
    assert str(tmp_path).encode() not in b"".join(snapshot(one).values())


def test_digest_follows_contents(
    wheels: list[Path], make_wheel: MakeWheel, lock: Path, tmp_path: Path
) -> None:
    """Another byte in a package: another digest and time of change, of that folder only."""
    before = create(lock, tmp_path / "one")
    old = sha256(wheels[2])
    new = make_wheel("jinja2-3.1.6", {"jinja2/__init__.py": b"", "jinja2/x.txt": b"1"})
    lock.write_text(lock.read_text().replace(old, sha256(new)))
    after = create(lock, tmp_path / "two")
    assert before["digest"] != after["digest"]
    times = [(tmp_path / env / "site-packages").stat().st_mtime for env in ("one", "two")]
    assert times[0] != times[1]
    times = [(tmp_path / env / "python/lib").stat().st_mtime for env in ("one", "two")]
    assert times[0] == times[1]


def test_nothing_stays_after_a_failure(wheels: list[Path], lock: Path, tmp_path: Path) -> None:
    """A missing program, a wrong file, a missing wheel: no part of an environment."""
    with pytest.raises(InstallError, match="vela: no package of the locks has a program of") as e:
        create(lock, tmp_path / "env", scripts=["vela"])
    assert "Available: mark, native." in str(e.value)
    assert list((tmp_path / "env").iterdir()) == []
    lock.write_text(lock.read_text().replace(sha256(wheels[1]), "0" * 64))
    with pytest.raises(MissingFilesError, match="flatbuffers==25.12.19: file not found"):
        create(lock, tmp_path / "env")
    assert list((tmp_path / "env").iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_install_that_is_ended(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """No part of an environment, and the next install is right."""
    command = [
        sys.executable,
        "-I",
        "-B",
        str(INSTALLER),
        "--locks",
        str(lock),
        "--output",
        str(tmp_path / "e"),
        "--files",
        str(lay_files(lock.parent / "wheels", tmp_path / "files")),
    ]
    running = subprocess.Popen(
        [*command, "--lite"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert running.stderr is not None
    while "[1/5]" not in running.stderr.readline():
        assert running.poll() is None
    os.killpg(running.pid, number)
    message = running.communicate()[1]
    kept = [path.name for path in (tmp_path / "e").iterdir()]
    if number == signal.SIGINT:
        assert running.returncode == 130
        assert message.endswith("error: interrupted; nothing was installed\n")
        assert kept == []
    assert not set(kept) & set(environment.PARTS)
    assert create(lock, tmp_path / "e")["versions"]


def test_a_disk_that_is_full(lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file and the reason are named, and nothing stays."""

    def write(*_: object) -> None:
        raise OSError(28, "No space left on device", "a/file")

    monkeypatch.setattr(environment.manifest, "write", write)
    with pytest.raises(InstallError, match="a/file: No space left on device. Check the path") as e:
        create(lock, tmp_path / "env")
    assert "about 4 GB are needed" in str(e.value)
    assert list((tmp_path / "env").iterdir()) == []


def test_no_executorch(lock: Path, tmp_path: Path) -> None:
    """The torch-free folder can't be made of packages without executorch."""
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("executorch")]
    lock.write_text("\n".join(lines) + "\n")
    with pytest.raises(InstallError, match="lite: packages are missing") as caught:
        create(lock, tmp_path / "env")
    assert "lite = False" in str(caught.value)


def test_not_over_another(lock: Path, tmp_path: Path) -> None:
    """An environment that is there is neither mixed with another nor deleted."""
    create(lock, tmp_path / "env")
    with pytest.raises(InstallError, match="it has an environment already"):
        create(lock, tmp_path / "env")
    assert (tmp_path / "env/environment.json").exists()


def test_bytecode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash-based and unchecked; the same whatever else is compiled; templates are left alone."""
    roots = [tmp_path / "one", tmp_path / "two"]
    for root in roots:
        root.mkdir()
        for number in range(20 if root == roots[0] else 1):
            (root / f"m{number}.py").write_text(
                "x = 1\n\ndef f(y):\n    return y in {'path', 'x'}\n"
            )
        (root / "template.py").write_text("{{ x }} ->\n")
    monkeypatch.setattr(bytecode, "_CHUNK", 6)
    shares: list[float] = []
    with ThreadPoolExecutor() as executor:
        bytecode.compile_trees(roots, executor, progress=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]
    one, two = (root / "__pycache__/m0.cpython-311.pyc" for root in roots)
    assert int.from_bytes(one.read_bytes()[4:8], "little") == 0b01
    assert b"one/m0.py" in one.read_bytes()
    assert str(tmp_path).encode() not in one.read_bytes()
    assert one.read_bytes().replace(b"one/m0.py", b"two/m0.py") == two.read_bytes()
    assert not (roots[0] / "__pycache__/template.cpython-311.pyc").exists()


def test_bytecode_that_cannot_be_written(tmp_path: Path) -> None:
    """It is an error: an environment without it is another one."""
    (tmp_path / "m.py").write_text("x = 1\n")
    (tmp_path / "__pycache__").write_text("")
    with ThreadPoolExecutor() as executor, pytest.raises(InstallError, match="bytecode: it cannot"):
        bytecode.compile_trees([tmp_path], executor)


def test_launchers() -> None:
    """Programs of packages start the environment's own Python, wherever it is."""
    text = scripts.launcher("vela", "ethosu.vela.vela:Main.run", "python3.11")
    assert text.startswith("#!/bin/sh\n")
    assert "from ethosu.vela.vela import Main\n" in text
    assert "Main.run()" in text
    assert "$root/python/bin/python3.11" in text


def test_launchers_of_layers() -> None:
    """A layer has no Python: its programs take that of the process that starts them."""
    text = scripts.launcher("vela", "ethosu.vela.vela:main [extra]", "")
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
    for path in INSTALLER.glob("*.py"):
        assert f'"{path.name}"' in listed
    for name in ("prune.toml", "tools.txt"):
        assert f"locks:{name}" in listed
