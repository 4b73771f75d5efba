"""Needs of a program that older versions of ExecuTorch lack, and the messages."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from etbuild.errors import BuildError
from etbundle import inventory, older_fit
from etbundle.inventory import Inventory
from etbundle.needs import Need
from etlink import schema

from tests.unit.linker.synthetic import changed_program

RECORDED = Path("toolchains/older/inventories.json")
NO_KINDS: dict[str, dict[str, str]] = {kind: {} for kind in inventory.KINDS} | {
    "Program": {"0": "0"}
}


def calls(name: str, overload: str) -> Callable[[Any], None]:
    def change(tables: Any) -> None:
        operator = schema.program_class("OperatorT")()
        operator.name, operator.overload = name, overload
        tables.executionPlan[0].operators = [operator]

    return change


def check(needs: list[Need], version: str, known: dict[str, Inventory]) -> str:
    try:
        older_fit.check("//t:test", needs, version, known)
    except BuildError as error:
        return str(error)
    return ""


def test_an_operator_that_1_3_1_lacks(tmp_path: Path) -> None:
    known = older_fit.read(RECORDED)
    path = changed_program(tmp_path / "net.pte", calls("executorch_prim::sym_not", "Scalar"))
    needs = older_fit.needs_of("//m:net", path)
    assert check(needs, "1.3.1", known) == (
        '//t:test: runtimes: //m:net calls the operator "executorch_prim::sym_not.Scalar" in its '
        'method "forward", which ExecuTorch 1.3.1 lacks. Version 1.4.0 has it.\n'
        'Remove "1.3.1" from runtimes, or use a recipe or a model without it.'
    )
    assert check(needs, "1.4.0", known) == check(needs, "1.5.0", known) == ""


def test_an_operator_that_no_version_has() -> None:
    known = older_fit.read(RECORDED)
    text = check([Need("//m:net", "operator", "ours::gelu.out", "forward")], "1.4.1", known)
    assert 'calls the operator "ours::gelu.out"' in text
    assert "which ExecuTorch 1.4.1 lacks. No known version has it." in text


def test_a_backend_and_the_oldest_version_that_has_it() -> None:
    known = {
        # As text, 1.10.0 would come before 1.9.0.
        version: Inventory(version, (), backends, NO_KINDS)
        for version, backends in {"1.10.0": ("B",), "1.9.0": ("B",), "1.8.0": ()}.items()
    }
    text = check([Need("//m:net", "backend", "B", "decode")], "1.8.0", known)
    assert 'delegates to the backend "B" in its method "decode", which ExecuTorch 1.8.0' in text
    assert "Version 1.9.0 has it." in text


def test_kinds_of_the_schema(tmp_path: Path) -> None:
    def two_values(tables: Any) -> None:
        value = schema.program_class("EValueT")()
        value.valType = schema.program_class("KernelTypes").Int
        value.val = schema.program_class("IntT")()
        tables.executionPlan[0].values = [value]

    needs = older_fit.needs_of("//m:net", changed_program(tmp_path / "net.pte", two_values))
    assert needs == [Need("//m:net", "Program", "0"), Need("//m:net", "KernelTypes", "2")]
    old = Inventory("1.0.0", (), (), NO_KINDS)
    new = Inventory("1.1.0", (), (), NO_KINDS | {"KernelTypes": {"2": "Int"}})
    text = check(needs, "1.0.0", {"1.0.0": old, "1.1.0": new})
    assert '//m:net has the kind of value "Int", which ExecuTorch 1.0.0 lacks.' in text
    assert "Version 1.1.0 has it." in text
    assert check(needs, "1.1.0", {"1.0.0": old, "1.1.0": new}) == ""


def test_a_newer_schema(tmp_path: Path) -> None:
    def stamp(tables: Any) -> None:
        tables.version = 1

    needs = older_fit.needs_of("//m:net", changed_program(tmp_path / "net.pte", stamp))
    old = Inventory("1.0.0", (), (), NO_KINDS)
    new = Inventory("1.1.0", (), (), NO_KINDS | {"Program": {"0": "0", "1": "1"}})
    text = check(needs, "1.0.0", {"1.0.0": old, "1.1.0": new})
    assert '//m:net has the schema version "1", which ExecuTorch 1.0.0 lacks.' in text
    assert check(needs, "1.1.0", {"1.0.0": old, "1.1.0": new}) == ""


def test_members_of_enums_and_unions() -> None:
    text = """
    // enum ScalarType : byte { WRONG = 1, }
enum ScalarType : byte {
  BYTE = 0,
  CHAR,   // 1
  LAST = 29,
  // BITS8 = 21,
}
enum Other : byte { A }
union XNodeUnion {
  XNNAdd: _XNNNode2x1,
  XNNFullyConnected,
}
"""
    assert inventory.members(text) == {
        "ScalarType": {"0": "BYTE", "1": "CHAR", "29": "LAST"},
        "XNodeUnion": {"1": "XNNAdd", "2": "XNNFullyConnected"},
    }


def test_a_wheel_without_schemas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schemas, library, output = (tmp_path / name for name in ("a.fbs", "a.o", "out.json"))
    schemas.write_text("union KernelTypes {\n  Null,\n}\n")
    library.write_bytes(_EMPTY_OBJECT)
    words = ["--version=1.4.9", f"--library={library}", f"--schema={schemas}"]
    assert inventory.main([*words, f"--output={output}"]) == 1
    assert "ExecuTorch 1.4.9: its schemas: got KernelTypes, expected" in capsys.readouterr().err
    assert not output.exists()


# The header of an ELF file without sections.
_EMPTY_OBJECT = bytes.fromhex("7f454c46020101") + bytes(9) + bytes.fromhex("01003e0001") + bytes(43)


def test_a_malformed_record(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"version": "1.4.0", "operators": "add"}))
    with pytest.raises(BuildError, match="is not an inventory of a version of ExecuTorch"):
        older_fit.read(path)
