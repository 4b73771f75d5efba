"""The keystore that an assembled Bazel trusts."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path

import pytest
from bootstrap import trust
from fake_machine import Machine
from fetch.settings import Settings
from test_assembled import prefix  # noqa: F401  (a fixture)

_CERTIFICATES = [bytes(range(99)), b"\x30\x82" * 700]


def pem(data: bytes) -> str:
    text = base64.encodebytes(data).decode()
    return f"# A name\n-----BEGIN CERTIFICATE-----\n{text}-----END CERTIFICATE-----\n"


def test_a_keystore() -> None:
    """Each part of the format, as `keytool -list -storetype JKS` reads it."""
    data = trust.keystore("".join(map(pem, _CERTIFICATES)) + "# The end\n")
    rest, digest = data[:-20], data[-20:]
    password = "changeit".encode("utf-16-be")
    assert digest == hashlib.sha1(password + b"Mighty Aphrodite" + rest).digest()
    assert rest[:12] == bytes.fromhex("feedfeed 00000002 00000002")
    rest = rest[12:]
    for number, certificate in enumerate(_CERTIFICATES):
        head = b"\0\0\0\2" + b"\0\1" + str(number).encode() + bytes(8) + b"\0\5X.509"
        whole = head + len(certificate).to_bytes(4, "big") + certificate
        assert rest.startswith(whole)
        rest = rest[len(whole) :]
    assert rest == b""


@pytest.mark.usefixtures("prefix")
def test_options(machine: Machine, tmp_path: Path) -> None:
    """The file that pip's settings name is Bazel's, too; another one begins a new server."""
    bundle = tmp_path / "own.pem"
    bundle.write_text(pem(_CERTIFICATES[0]))
    stores = []
    for text in (pem(_CERTIFICATES[0]), pem(_CERTIFICATES[1])):
        bundle.write_text(text)
        os.utime(bundle, ns=(2**62, 2**62))
        output = machine.bazelw("build", PIP_CERT=str(bundle)).stdout
        stores.append(Path(output.partition("javax.net.ssl.trustStore=")[2].partition(">")[0]))
        assert stores[-1].read_bytes() == trust.keystore(text)
        assert "<--host_jvm_args=-Djavax.net.ssl.trustStoreType=JKS>" in output
    assert stores[0] != stores[1]


def test_no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "BUNDLES", ("/no/file",))
    assert trust.bundle(Settings()) is None
    assert trust.bundle(Settings(cert="/no/other")) is None
