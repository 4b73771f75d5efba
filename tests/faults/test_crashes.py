"""Models that end or starve the process that lowers them; the worker goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from exporter_process import PORTABLE, Exporter, flags, run_once


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        ("kills_itself", "the lowering's process was killed by signal 9 (SIGKILL)"),
        ("crashes", "the lowering's process was killed by signal 11 (SIGSEGV)"),
        ("exits_at_once", "the lowering's process ended with exit code 4 before it had answered"),
        ("exits", "the model's code called exit(3)"),
        ("takes_all_memory", 'out of memory in the stage "load"'),
        ("takes_all_memory_of_torch", 'out of memory in the stage "load"'),
        ("fills_the_disk", "Cannot write out: File too large"),
    ],
)
@pytest.mark.few(2)
def test_worker_goes_on(exporter: Exporter, tmp_path: Path, entry_point: str, message: str) -> None:
    """Each is reported, and the next request succeeds."""
    assert message in exporter.refuse(flags(tmp_path / "out", f"faulty:{entry_point}", PORTABLE))
    response = exporter.ask(flags(tmp_path / "next", "faulty:good", PORTABLE))
    assert response["exitCode"] == 0
    assert (tmp_path / "next/index.json").exists()


def test_prints(exporter: Exporter, tmp_path: Path) -> None:
    """Output of a model and its children doesn't get between the responses."""
    response = exporter.ask(flags(tmp_path / "out", "faulty:prints_and_works", PORTABLE))
    assert response == {"exitCode": 0, "output": "", "requestId": response["requestId"]}
    assert "noise of a child" in exporter.log.read_text()


def test_what_a_model_changes_stays_with_it(exporter: Exporter, tmp_path: Path) -> None:
    """Settings of torch, the environment and the folder: a fresh process's for each request."""
    first = exporter.ask(flags(tmp_path / "first", "faulty:random", PORTABLE))
    assert first["exitCode"] == 0
    assert exporter.ask(flags(tmp_path / "x", "faulty:changes_settings", PORTABLE))["exitCode"] == 0
    assert exporter.ask(flags(tmp_path / "second", "faulty:random", PORTABLE))["exitCode"] == 0
    assert _contents(tmp_path / "first") == _contents(tmp_path / "second")


@pytest.mark.parametrize(
    "entry_point", ["kills_itself", pytest.param("exits_at_once", marks=pytest.mark.release)]
)
def test_without_a_worker(tmp_path: Path, entry_point: str) -> None:
    """One process a request: it fails, whatever the code, and there is no output."""
    done = run_once(flags(tmp_path / "out", f"faulty:{entry_point}", PORTABLE), tmp_path)
    assert done.returncode != 0
    assert not (tmp_path / "out").exists()


def _contents(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
