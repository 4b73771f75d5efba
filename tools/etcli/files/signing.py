"""`et sign`: signs the manifest of an app, of a release or of an update."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etbundle.app import MANIFEST
from etlink.container import Piece, sha256_of, write_atomically
from etrelease import update_file

from etcli import paths
from etcli.command import Outcome
from etcli.console import Printer
from etcli.files import minisign

SIGNATURE = MANIFEST + ".minisig"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument(
        "path", metavar="DIR_OR_UPDATE", help="folder of an app or a release, or an update"
    )
    by = parser.add_mutually_exclusive_group(required=True)
    by.add_argument("--key", metavar="FILE", help="minisign's secret key; asks for its password")
    by.add_argument(
        "--signature", metavar="FILE", help=f"instead: {SIGNATURE}, made by minisign, for an update"
    )
    parser.add_argument(
        "--output", metavar="FILE", help="the signed update; default: the update is replaced"
    )


def command(options: argparse.Namespace) -> Outcome:
    """Signs a manifest."""
    result = sign(
        paths.existing(options.path),
        key=paths.existing(options.key) if options.key else None,
        signature=paths.existing(options.signature) if options.signature else None,
        output=paths.written(options.output) if options.output else None,
    )
    return Outcome(result, lambda out: show(result, out))


def sign(
    path: Path, *, key: Path | None, signature: Path | None = None, output: Path | None = None
) -> dict[str, Any]:
    """Signs a manifest, or adds a signature that was made before.

    Args:
      path: folder with a manifest, beside which the signature is written; or an update.
      key: minisign's secret key; None: `signature` is given.
      signature: a .minisig file of the update's manifest.
      output: where the signed update is written; None: to `path`.

    Returns:
      "file", which has the signature, and "sha256" of the signed manifest.

    Raises:
      BuildError: the path is neither, or the key cannot be read.
    """
    if not path.is_dir():
        update = update_file.read(path)
        text = update.manifest
        made = signature.read_bytes() if signature else _signed(text, key, path)
        written = output or path
        update_file.sign(update, made, written)
    else:
        if signature or output:
            raise BuildError(
                f"{path} is a folder: --signature and --output are for updates.",
                f"Put the signature into the folder, as {SIGNATURE}.",
            )
        manifest = path / MANIFEST
        if not manifest.is_file():
            raise BuildError(
                f"{path}: {MANIFEST} not found.", "Give the folder of an app or a release."
            )
        text = manifest.read_bytes()
        made = _signed(text, key, path)
        written = path / SIGNATURE
        write_atomically(written, lambda out: out.write(made))
    return {"file": str(written), "sha256": sha256_of(Piece.of(text))}


def _signed(text: bytes, key: Path | None, path: Path) -> bytes:
    if key is None:
        raise BuildError(f"{path}: no key given.", "Give --key.")
    sha256 = sha256_of(Piece.of(text))
    return minisign.sign(text, minisign.read_secret_key(key), f"{MANIFEST} sha256:{sha256}")


def show(result: Mapping[str, Any], out: Printer) -> None:
    """Prints what `sign` returned."""
    out.line(f"{result['file']}: signed the manifest with sha256 {result['sha256']}.", "green")
