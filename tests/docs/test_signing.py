"""The commands of docs/howto/apps.md that sign a release, on a folder like one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def commands() -> list[str]:
    """The lines of the page that start model_signing."""
    text = Path("docs/howto/apps.md").read_text(encoding="utf-8")
    return re.findall(r"^model_signing .+$", text, re.MULTILINE)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = command.split()
    assert words.pop(0) == "model_signing"
    return subprocess.run(
        [sys.executable, "-m", "model_signing", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the keys and the release `dist`."""
    key = ec.generate_private_key(ec.SECP256R1())
    (tmp_path / "release.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    (tmp_path / "release.pub").write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    for name in ("SHA256SUMS", "manifest.json", "programs/net.pte", "data/net.ptd"):
        path = tmp_path / "dist" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


def test_sign_and_verify(folder: Path) -> None:
    sign, verify = commands()
    signed = run(sign, folder)
    assert signed.returncode == 0, signed.stderr
    assert run(verify, folder).returncode == 0


@pytest.mark.parametrize("change", ["edit", "add", "remove"])
def test_a_changed_release(folder: Path, change: str) -> None:
    sign, verify = commands()
    assert run(sign, folder).returncode == 0
    program = folder / "dist/programs/net.pte"
    if change == "edit":
        program.write_text("other")
    elif change == "add":
        program.with_name("other.pte").write_text("other")
    else:
        program.unlink()
    assert run(verify, folder).returncode != 0
