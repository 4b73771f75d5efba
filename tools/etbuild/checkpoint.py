"""Checkpoints: weights in files that may come from anywhere. No code in them runs."""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any

from etbuild import torch_archive
from etbuild.errors import BuildError
from etbuild.torch_archive import TorchArchive
from etbuild.zip_check import ArchiveError

_AGAIN = "Fetch the file again, or correct what the target's data attribute names."
_TENSORS_ONLY = (
    "A checkpoint is data: save the model's state_dict where it was made, with "
    "safetensors.torch.save_file or torch.save. A class that is known to be harmless can be "
    "allowed in the model's code with torch.serialization.add_safe_globals."
)
# Of torch's messages, which begin with advice.
_REFUSED = re.compile(r"GLOBAL ([A-Za-z_][\w.]*)")
_CAUSE = re.compile(r"WeightsUnpickler error: *(.*)")


def load_checkpoint(path: Path) -> Any:
    """Loads weights, on the CPU.

    Args:
      path: a .safetensors file; what `torch.save` wrote, of any ending; or a TorchScript file, of
        which the tensors are taken and not the code.

    Returns:
      What was saved: a dict of tensors by name, or what else `torch.save` was given: dicts, lists,
      tensors, numbers, text.

    Raises:
      BuildError: the file is missing, truncated or damaged, of another kind, or a pickle that would
        run code.

    Example:

        module.load_state_dict(load_checkpoint(ctx.file("weights.pt")))
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(16)
    except OSError as error:
        raise BuildError(f"{path}: cannot be read: {error.strerror}.", _AGAIN) from error
    if start.startswith(b"GGUF"):
        raise BuildError(
            f"{path}: a GGUF file, which load_checkpoint does not read.", "Read it with gguf."
        )
    if start.startswith(b"PK\3\4"):
        return _from_archive(path)
    if start[8:9] == b"{":
        return _from_safetensors(path)
    if start.startswith(b"\x80"):
        return _unpickled(path, None)
    raise BuildError(
        f"{path}: not a checkpoint: it begins with {start[:8]!r}, expected a file of safetensors, "
        "torch.save or TorchScript.",
        _AGAIN,
    )


def _from_safetensors(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise BuildError(f"{path}: a damaged safetensors file: {error}.", _AGAIN) from error


def _from_archive(path: Path) -> Any:
    try:
        with path.open("rb") as stream:
            archive = torch_archive.read(stream)
            if archive.is_script:
                return torch_archive.script_tensors(archive)
    except ArchiveError as error:
        raise BuildError(f"{path}: a damaged checkpoint: {error}.", _AGAIN) from error
    return _unpickled(path, archive)


def _unpickled(path: Path, archive: TorchArchive | None) -> Any:
    import torch

    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        refused = refused_name(error, archive)
        if refused:
            raise BuildError(
                f'{path}: a pickle that would run code: it names "{refused}".', _TENSORS_ONLY
            ) from None
        raise BuildError(f"{path}: a damaged checkpoint: {_first(error)}", _AGAIN) from error
    except Exception as error:  # torch raises whatever a damaged file leads to.
        raise BuildError(f"{path}: a damaged checkpoint: {_first(error)}", _AGAIN) from error


def refused_name(error: Exception, archive: TorchArchive | None) -> str:
    """Returns the name in a pickle that may not be called; empty: it failed in another way."""
    match = _REFUSED.search(str(error))
    if match is None:
        return ""
    known = archive.names if archive else ()
    # torch leaves "builtins" out.
    return next((name for name in sorted(known) if f".{name}".endswith(f".{match[1]}")), match[1])


def check_archive(path: Path, name: str) -> None:
    """Checks that a `torch.save` archive is whole; other files pass.

    Args:
      path: the file.
      name: what messages call it.

    Raises:
      BuildError: it is damaged, or refers to bytes that are missing.
    """
    try:
        with path.open("rb") as stream:
            if stream.read(4) == b"PK\3\4":
                stream.seek(0)
                torch_archive.read(stream)
    except (OSError, ArchiveError) as error:
        raise BuildError(f"{name}: a damaged checkpoint: {error}.", _AGAIN) from error


def check_pickled(data: bytes) -> TorchArchive | None:
    """Checks the archive of a `torch.save` that lies inside of another file.

    Returns:
      What is in it; None: it is no archive, but a pickle alone.

    Raises:
      ArchiveError: it is damaged, or refers to bytes that are missing.
    """
    return torch_archive.read(io.BytesIO(data)) if data.startswith(b"PK\3\4") else None


def _first(error: Exception) -> str:
    cause = _CAUSE.search(str(error))
    lines = (cause[1] if cause else str(error)).strip().splitlines() or [type(error).__name__]
    text = lines[0] if len(lines[0]) < 300 else f"{lines[0][:300]}…"
    return text if text.endswith(".") else text + "."
