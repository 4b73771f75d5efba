"""Updates of an app's folder, and signatures: executorch_update.h by ctypes.

    from executorch_update import apply, verify

    apply("chat_app", "chat_1_1.update", public_key="RWT...")
    verify("chat_app", "RWT...")

An update is applied as a whole: if it fails, or the process is killed, the folder has the older or
the newer version. Apps that are open keep the older version's files; open them again.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref, c_bool, c_char, c_char_p, c_uint64
from dataclasses import dataclass
from pathlib import Path

_LIBRARY = "libexecutorch_app.so"
# As `executorch_update_code`.
INVALID_ARGUMENT, INVALID_UPDATE, OTHER_VERSION, NOT_WRITTEN = range(1, 5)


class UpdateError(Exception):
    """What is wrong, as one sentence.

    Attributes:
      code: INVALID_ARGUMENT, INVALID_UPDATE, OTHER_VERSION or NOT_WRITTEN.
    """

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Applied:
    """What an update did.

    Attributes:
      is_current: the folder had the newer version already.
      files: that were written; the others are unchanged.
      written: bytes.
    """

    is_current: bool
    files: int
    written: int


class _Error(ctypes.Structure):
    _fields_ = (("sentence", c_char * 2048),)


class _Options(ctypes.Structure):
    _fields_ = (("public_key", c_char_p),)


class _Result(ctypes.Structure):
    _fields_ = (
        ("is_current", c_bool),
        ("files", c_uint64),
        ("written", c_uint64),
        ("label", c_char * 512),
    )


def apply(
    folder: str | os.PathLike[str],
    update: str | os.PathLike[str],
    *,
    public_key: str | None = None,
    library: str | os.PathLike[str] | None = None,
) -> Applied:
    """Replaces the version of an app by a newer one.

    Args:
      folder: the app's folder.
      update: a file of et_update.
      public_key: minisign's ("RW..."), or the text of its file; None: signatures are not checked.
      library: the shared library; default: libexecutorch_app.so beside this file, or on the search
        path of the system.

    Raises:
      UpdateError: the update cannot be applied; the folder is as it was.
      OSError: the library cannot be loaded.
    """
    result = _Result()
    key = None if public_key is None else public_key.encode()
    _call(
        library,
        "apply",
        os.fsencode(folder),
        os.fsencode(update),
        byref(_Options(key)),
        byref(result),
    )
    return Applied(result.is_current, result.files, result.written)


def verify(
    folder: str | os.PathLike[str],
    public_key: str,
    *,
    library: str | os.PathLike[str] | None = None,
) -> None:
    """Checks the signature of an app's manifest, and with that the hashes of all files.

    Args:
      folder: the app's folder, with manifest.json.minisig.
      public_key: minisign's ("RW..."), or the text of its file.
      library: as `apply` takes it.

    Raises:
      UpdateError: the signature, or a file, is not as the key's owner signed it.
      OSError: the library cannot be loaded.
    """
    _call(library, "verify", os.fsencode(folder), public_key.encode())


def _call(library: str | os.PathLike[str] | None, name: str, *arguments: object) -> None:
    beside = Path(__file__).parent.parent / _LIBRARY
    loaded = ctypes.CDLL(os.fspath(library or (beside if beside.is_file() else _LIBRARY)))
    error = _Error()
    code = getattr(loaded, f"executorch_update_{name}")(*arguments, byref(error))
    if code:
        raise UpdateError(code, error.sentence.decode("utf-8", "replace"))
