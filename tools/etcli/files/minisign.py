"""Minisign's keys and signatures: Ed25519 over a BLAKE2b hash.

Format: https://jedisct1.github.io/minisign. tools/runner/update/signature.cc reads it, too.
"""

from __future__ import annotations

import base64
import binascii
import getpass
import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

from etbuild.errors import BuildError

from etcli import paths

_TRUSTED = "trusted comment: "
_SECRET_SIZE = 158
_HINT = 'Make a key with minisign: "minisign -G".'


@dataclass(frozen=True)
class PublicKey:
    """Who signs.

    Attributes:
      id: eight bytes that signatures name the key by.
      key: of Ed25519.
    """

    id: bytes
    key: bytes


@dataclass(frozen=True)
class SecretKey:
    """What signs.

    Attributes:
      id: as of the public key.
      seed: of the key, 32 bytes.
    """

    id: bytes
    seed: bytes


def _shown(key_id: bytes) -> str:
    return key_id[::-1].hex().upper()


def _decoded(line: str, size: int) -> bytes | None:
    try:
        data = base64.b64decode(line, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if len(data) == size else None


def read_public_key(given: str) -> PublicKey:
    """Reads a key.

    Args:
      given: the key, which begins with "RW", or its file.

    Raises:
      BuildError: it is neither.
    """
    file = paths.written(given)
    text = file.read_text("utf-8", "replace") if file.is_file() else given
    lines = text.splitlines()
    line = lines[1] if len(lines) > 1 else text.strip()
    data = _decoded(line, 42)
    if data is None or data[:2] != b"Ed":
        raise BuildError(
            f'public key: got "{line[:80]}", expected minisign\'s: 56 characters that begin with '
            '"RW", or the file that has them.',
            _HINT,
        )
    return PublicKey(data[2:10], data[10:])


def read_secret_key(path: Path) -> SecretKey:
    """Reads a key; asks for its password on the terminal, or reads it from standard input.

    Raises:
      BuildError: it is not a secret key, or the password is wrong.
    """
    lines = path.read_text("utf-8", "replace").splitlines()
    data = _decoded(lines[1], _SECRET_SIZE) if len(lines) > 1 else None
    if data is None or data[:2] != b"Ed" or data[4:6] != b"B2" or data[2:4] not in (b"Sc", b"\0\0"):
        raise BuildError(f"{path} is not a secret key of minisign.", _HINT)
    secret = data[54:]
    if data[2:4] == b"Sc":
        secret = bytes(a ^ b for a, b in zip(secret, _stream(data, path), strict=True))
        if hashlib.blake2b(data[:2] + secret[:72], digest_size=32).digest() != secret[72:]:
            raise BuildError(f"{path} cannot be read: its password is another one.", _HINT)
    return SecretKey(secret[:8], secret[8:40])


def _stream(data: bytes, path: Path) -> bytes:
    """The bytes that a secret key is encrypted with."""
    if sys.stdin.isatty():
        password = getpass.getpass(f"Password of {path}: ")
    else:
        password = sys.stdin.readline().rstrip("\n")
    # As libsodium derives scrypt's numbers from two limits; its blocks have 8 x 128 bytes.
    operations = max(int.from_bytes(data[38:46], "little"), 32768)
    memory = int.from_bytes(data[46:54], "little")
    by_operations = operations < memory // 32
    most = operations // 32 if by_operations else memory // 1024
    power = 1
    while power < 63 and 1 << power <= most // 2:
        power += 1
    parallel = 1 if by_operations else min((operations // 4) >> power, 0x3FFFFFFF) // 8
    return hashlib.scrypt(
        password.encode(),
        salt=data[6:38],
        n=1 << power,
        r=8,
        p=parallel,
        maxmem=2**31 - 1,
        dklen=104,
    )


def sign(text: bytes, key: SecretKey, comment: str) -> bytes:
    """A signature, as a .minisig file has it.

    Args:
      text: what is signed.
      key: what signs.
      comment: a line that is signed, too.
    """
    # Here, because most commands need no keys.
    from nacl.signing import SigningKey

    signing = SigningKey(key.seed)
    signature = signing.sign(hashlib.blake2b(text).digest()).signature
    whole = signing.sign(signature + comment.encode()).signature
    lines = [
        f"untrusted comment: signature by the key {_shown(key.id)}",
        base64.b64encode(b"ED" + key.id + signature).decode(),
        _TRUSTED + comment,
        base64.b64encode(whole).decode(),
    ]
    return "".join(line + "\n" for line in lines).encode()


def problem(text: bytes, signature: bytes, key: PublicKey, what: str) -> str:
    """What is wrong with a signature, as a sentence; empty: nothing."""
    from nacl.exceptions import BadSignatureError
    from nacl.signing import VerifyKey

    lines = signature.decode("utf-8", "replace").splitlines()
    packet = _decoded(lines[1], 74) if len(lines) == 4 else None
    whole = _decoded(lines[3], 64) if len(lines) == 4 else None
    if packet is None or whole is None or not lines[2].startswith(_TRUSTED):
        return f"{what}: its signature is malformed, expected a .minisig file of minisign."
    kind, key_id, signed = packet[:2], packet[2:10], packet[10:]
    if kind != b"ED":
        return (
            f'{what}: its signature is of the kind "{kind.decode("latin-1")}", expected "ED", of a '
            "hash. Sign it with minisign 0.10 or later, without -l."
        )
    if key_id != key.id:
        return f"{what}: another key signed it: got {_shown(key_id)}, expected {_shown(key.id)}."
    verifying = VerifyKey(key.key)
    try:
        verifying.verify(hashlib.blake2b(text).digest(), signed)
        verifying.verify(signed + lines[2].removeprefix(_TRUSTED).encode(), whole)
    except BadSignatureError:
        return f"{what}: its signature does not fit: the file, or its signature, was changed."
    return ""
