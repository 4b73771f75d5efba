"""Operators that a program calls and that no library of ExecuTorch has a kernel for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError, listed

from etlink.container import REBUILD
from etlink.json_file import fields_of, read_object

# How many modules an error lists for each operator.

# torch's fused attention, which only its eager mode has.
_FUSED = ("aten::_native_multi_head_attention", "aten::_transformer_encoder_layer_fwd")

_HINT = (
    "Change the model, or use a recipe that decomposes or delegates it. If the app that runs the "
    "program registers it (kernels of et_runner_app), name it in app_operators of the program."
)
_FUSED_HINT = (
    "Call torch.backends.mha.set_fastpath_enabled(False) before torch.export.export, so that torch "
    "does not export its fused attention."
)


def check(label: str, lowered: Path, app_operators: Sequence[str]) -> None:
    """Fails for an operator that would keep the program from being loaded.

    Operators of other namespaces than ExecuTorch's are left to the app.

    Args:
      label: the program, for messages.
      lowered: directory of EtLower.
      app_operators: names or patterns of operators that the app registers: "aten::bincount.out".

    Raises:
      BuildError: nothing registers an operator; a pattern matches none that the program needs.
    """
    path = lowered / "lowering.json"
    listed = read_object(path, "does not say which kernels are missing", REBUILD)
    with fields_of(path, REBUILD):
        missing = list(listed["without_kernel"])
        _check(label, missing, app_operators)


def _check(label: str, missing: Sequence[Mapping[str, Any]], app_operators: Sequence[str]) -> None:
    for pattern in app_operators:
        if not any(fnmatchcase(call["operator"], pattern) for call in missing):
            needed = ", ".join(sorted({call["operator"] for call in missing}))
            raise BuildError(
                f'{label}: app_operators: got "{pattern}", expected an operator that the program '
                f"calls and ExecuTorch has no kernel for ({needed or 'it calls none'}).",
                "Correct or remove it.",
            )
    refused = [
        call
        for call in missing
        if not call["foreign"] and not any(fnmatchcase(call["operator"], p) for p in app_operators)
    ]
    if refused:
        fused = all(call["operator"].startswith(_FUSED) for call in refused)
        raise BuildError(
            f"{label}: the program cannot be loaded: no library of ExecuTorch has a kernel for "
            + "; ".join(map(_described, refused))
            + ".",
            _FUSED_HINT if fused else _HINT,
        )


def _described(call: Mapping[str, Any]) -> str:
    where = f", in {listed(call['modules'])}" if call["modules"] else ""
    lines = f", {listed(call['lines'])}" if call["lines"] else ""
    return f'{call["operator"]} (method "{call["method"]}"{where}{lines})'
