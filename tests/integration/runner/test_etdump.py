"""--etdump: files for ExecuTorch's Inspector."""

from __future__ import annotations

from pathlib import Path

import pytest
from executorch.devtools import Inspector

from tests.integration.runner.runner_process import PROGRAMS, run, run_binary


@pytest.mark.parametrize(
    ("name", "part"), [("portable", "OPERATOR_CALL"), ("xnnpack", "DELEGATE_CALL")]
)
def test_events(name: str, part: str, tmp_path: Path) -> None:
    dump = tmp_path / "x.etdp"
    program = ["--program", PROGRAMS / f"{name}.pte", "--data", PROGRAMS / f"{name}.ptd"]
    report = run(*program, "--repeat", "5", "--etdump", dump, "--json").report
    assert report["programs"][0]["etdump"] == str(dump)
    blocks = {block.name: block for block in Inspector(etdump_path=str(dump)).event_blocks}
    events = {event.name: event for event in blocks["Execute"].events}
    assert part in events
    assert len(events["Method::execute"].perf_data.raw) == 5
    assert all(value > 0 for value in events["Method::execute"].perf_data.raw)


def test_cases_of_a_bundle(tmp_path: Path) -> None:
    dump = tmp_path / "x.etdp"
    assert run("--bundled", PROGRAMS / "methods.bpte", "--etdump", dump).code == 0
    blocks = Inspector(etdump_path=str(dump)).event_blocks
    names = {event.name for block in blocks for event in block.events}
    assert "Method::execute" in names


def test_an_app_without_the_library(tmp_path: Path) -> None:
    result = run_binary(
        PROGRAMS / "app/runner", "--program", "types", "--etdump", tmp_path / "x.etdp"
    )
    assert result.code == 1
    assert "--etdump: this runner was built without the runtime's library" in result.error


def test_a_file_that_can_not_be_written(tmp_path: Path) -> None:
    dump = tmp_path / "none" / "x.etdp"
    result = run("--program", PROGRAMS / "types.pte", "--etdump", dump)
    assert result.code == 1
    assert "x.etdp cannot be written: No such file or directory" in result.error
