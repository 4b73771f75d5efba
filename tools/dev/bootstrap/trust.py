"""The certificates that this machine trusts, for Java.

The JRE of an assembled Bazel trusts those that it came with. Behind a proxy that opens connections,
or with an index of one's own, the machine's differ. Java reads a keystore of the form JKS: numbers
are big-endian, texts have their length before them, and a hash with a fixed phrase ends the file.
"""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

from fetch.network import BUNDLES
from fetch.settings import Settings

from bootstrap.cache import write_file

_MAGIC, _VERSION, _CERTIFICATE = 0xFEEDFEED, 2, 2
_END, _BEGIN = "-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"
# Of the hash that the format ends with. It protects nothing: the file has no secrets.
_PASSWORD, _PHRASE = "changeit".encode("utf-16-be"), b"Mighty Aphrodite"


def bundle(settings: Settings) -> Path | None:
    """The file of certificates that pip's settings name, or the machine's."""
    names = [settings.cert] if settings.cert else BUNDLES
    return next((Path(name) for name in names if Path(name).is_file()), None)


def keystore(certificates: str) -> bytes:
    """A keystore of certificates in PEM; texts between them are left out of account."""
    blocks = [block.partition(_BEGIN)[2] for block in certificates.split(_END)]
    encoded = [ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{b}{_END}") for b in blocks if b]
    total = bytearray()
    for number in (_MAGIC, _VERSION, len(encoded)):
        total += number.to_bytes(4, "big")
    for number, data in enumerate(encoded):
        total += _CERTIFICATE.to_bytes(4, "big") + _text(str(number)) + bytes(8)
        total += _text("X.509") + len(data).to_bytes(4, "big") + data
    return bytes(total + hashlib.sha1(_PASSWORD + _PHRASE + total).digest())


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode("ascii")


def provide(folder: Path, certificates: Path) -> list[str]:
    """Startup options of Bazel for a keystore in a folder, named by its content."""
    data = keystore(certificates.read_text(encoding="ascii", errors="replace"))
    path = folder / f"{hashlib.sha256(data).hexdigest()[:16]}.jks"
    if not path.exists():
        write_file(path, data)
    properties = [f"trustStore={path}", "trustStoreType=JKS"]
    return [f"--host_jvm_args=-Djavax.net.ssl.{text}" for text in properties]
