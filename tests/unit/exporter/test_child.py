"""One request in a process: its folders, and what it says when it fails. Needs no torch."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from etbuild import BuildError
from etlower import child, lower

pytestmark = pytest.mark.usefixtures("clean_imports")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Executes a request for out/p; a function of (request, progress, tree) does its work."""
    (tmp_path / "out").mkdir()

    def made(work: Callable[..., Any], *flags: str, log: str | None = None) -> tuple[int, str]:
        # The last request's folder, which it was in, is gone.
        os.chdir(tmp_path)
        monkeypatch.setattr(lower, "run", work)
        return child.execute(["lower", "--label=//m:p", "--output=out/p", *flags], log)

    return made


def test_a_success_says_nothing_and_leaves_only_its_output(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    seen = {}

    def work(request: Any, progress: Any, tree: Path) -> None:
        seen.update(folder=Path.cwd(), tree=tree, names=os.listdir(tree))
        seen["variables"] = {os.environ[n] for n in ("HOME", "TMPDIR", "XDG_CACHE_HOME")}
        Path("scratch").write_text("in the way")
        request.output.write_text("done")

    assert run(work) == (0, "")
    own = tmp_path / "out" / "p.work"
    assert (seen["folder"], seen["tree"], seen["names"]) == (own, own / "sources", [])
    assert seen["variables"] == {str(own / n) for n in ("home", "tmpdir", "xdg_cache_home")}
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["p"]


def test_temporary_files_go_with_the_request(
    run: Callable[..., tuple[int, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = []
    monkeypatch.setattr(tempfile, "tempdir", None)

    def work(*_: Any) -> None:
        result.append(Path(tempfile.mkdtemp()))

    assert run(work) == (0, "")
    assert str(result[0]).startswith(str(tmp_path / "out" / "p.work"))
    assert not result[0].exists()


def test_leftovers_of_a_killed_request_are_removed(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    old = tmp_path / "out" / "p.work" / "sources" / "_main" / "old.py"
    old.parent.mkdir(parents=True)
    old.write_text("x = 1")

    def work(request: Any, progress: Any, tree: Path) -> None:
        assert list(tree.iterdir()) == []

    assert run(work) == (0, "")


def test_failures_become_messages(run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    def refuse(*_: Any) -> None:
        raise BuildError("wrong", "do it right")

    def leave(*_: Any) -> None:
        raise SystemExit(4)

    assert run(refuse) == (1, "ERROR: //m:p: wrong\ndo it right\n")
    code, text = run(leave)
    assert code == 1
    assert text.startswith("ERROR: //m:p: the model's code called exit(4).\n")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_trace_goes_to_the_log_where_there_is_one(
    run: Callable[..., tuple[int, str]], capfd: pytest.CaptureFixture[str]
) -> None:
    def work(*_: Any) -> None:
        raise RuntimeError("deep inside")

    code, text = run(work, log="/logs/w.log")
    assert code == 1
    assert text == (
        "ERROR: //m:p: failed: RuntimeError: deep inside\nThe full stack trace is in /logs/w.log\n"
    )
    assert "Traceback" in capfd.readouterr().err
    _, text = run(work)
    assert "  | RuntimeError: deep inside" in text
    assert capfd.readouterr().err == ""


def test_unknown_flags_and_missing_flag_files(run: Callable[..., tuple[int, str]]) -> None:
    code, text = run(lambda *_: None, "--color=red")
    assert (code, text.splitlines()[0]) == (
        1,
        "ERROR: the exporter: The exporter was started with unknown flags: "
        "unrecognized arguments: --color=red.",
    )
    code, text = run(lambda *_: None, "@nowhere")
    assert code == 1
    assert text.startswith("ERROR: the exporter: failed: FileNotFoundError: ")


def test_an_output_folder_that_can_not_be_written(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("no folder")
    code, text = run(lambda *_: None, "--output=file/p")
    assert (code, text) == (
        1,
        f"ERROR: //m:p: Cannot write to {tmp_path / 'file'}: Not a directory.\n"
        "Check the permissions of Bazel's output base and its free space.\n",
    )
