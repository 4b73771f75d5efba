"""The bill of materials of a release whose programs QNN compiled."""

from __future__ import annotations

import json
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

_RELEASE = Path("tests/backends/qualcomm/shipped")


def test_qnn_and_its_license() -> None:
    text = (_RELEASE / "sbom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    tools = {one["name"]: one for one in json.loads(text)["metadata"]["tools"]["components"]}
    assert tools["qnn"]["licenses"] == [{"license": {"name": "Qualcomm AI Stack License"}}]
    assert tools["qnn"]["version"].startswith("2.49.40.")
    assert tools["onnxruntime-qnn"]["version"] == "2.5.0"


def test_nothing_of_it_ships() -> None:
    """The release has the program, and no library."""
    names = {path.name for path in _RELEASE.rglob("*") if path.is_file()}
    assert "mobile_fp16.pte" in names
    assert [name for name in names if ".so" in name] == []
