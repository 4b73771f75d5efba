"""Payloads of the matrix's programs, and that two lowerings give the same bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import payloads
import pytest
from etlink import payload_operators

# Written by the macro: rows of the matrix, and the names that runtimes know backends by.
MATRIX = json.loads(Path("tests/backends/matrix.json").read_text())
PROGRAMS = sorted(Path("tests/backends").glob("*.pte"))
# CMSIS-NN's and Cadence's kernels are ordinary operators; Cadence has aten's linear layers, too.
_KERNELS = {
    "cadence": r"cadence::|aten::linear\.out",
    "cortex_m": r"cortex_m::quantized_",
    "portable": r"aten::",
    "targets": r"cortex_m::quantized_",
}


@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if not p.stem.endswith("_again")], ids=lambda p: p.stem
)
def test_what_is_delegated(program: Path) -> None:
    (row,) = [
        r
        for r in MATRIX["rows"]
        if re.fullmatch(rf"[a-z]+_{r['backend']}_{r['recipe']}", program.stem)
    ]
    found = payloads.delegates(program)
    if row["ids"] == [""]:
        assert not found
        wanted = re.compile(_KERNELS[row["backend"]])
        assert any(wanted.match(name) for name in payloads.operators(program))
        return
    assert found
    # The first has what the others are there to complete.
    assert row["ids"][0] in {payload.backend for payload in found} <= set(row["ids"])
    for payload in found:
        opened = payloads.open_payload(payload)
        assert opened
        if payload.backend in payload_operators.BACKENDS:
            # The linker's reader, which has no torch, against upstream's.
            delegate = payload_operators.Delegate(payload.method, payload.backend, payload.data)
            names = {name for name in opened if "." in name}
            assert payload_operators.operators_of(delegate) == tuple(sorted(names))


@pytest.mark.parametrize(
    "program", [p for p in PROGRAMS if p.stem.endswith("_again")], ids=lambda p: p.stem
)
def test_the_same_bytes_by_upstreams_own_functions(program: Path) -> None:
    first = program.with_name(program.name.replace("_again", ""))
    assert program.read_bytes() == first.read_bytes()
