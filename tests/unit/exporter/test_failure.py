"""Messages of a failed request. Needs no torch."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
from etbuild import BuildError
from etlower import failure
from etlower.progress import Progress
from request_files import install

pytestmark = pytest.mark.usefixtures("clean_imports")

_MODEL = """
def helper(x):
    raise ValueError(x)

def build(x):
    return helper(x)
"""


def raised(tree_of: Path, text: str) -> tuple[ValueError, Path]:
    """An error with a message from a user's file, and the import tree."""
    tree = install(tree_of, models__failing=_MODEL)
    with pytest.raises(ValueError, match=text) as caught:
        importlib.import_module("models.failing").build(text)
    return caught.value, tree


def failed(*stages: str) -> Progress:
    """Progress whose last stage has failed."""
    progress = Progress()
    for name in stages[:-1]:
        with progress.stage(name):
            pass
    with pytest.raises(KeyError), progress.stage(stages[-1]):
        raise KeyError
    return progress


def test_own_code_comes_before_the_log(tmp_path: Path) -> None:
    error, tree = raised(tmp_path, "too wide")
    text = failure.message(error, "//m:p", failed("load", "export"), tree, "/logs/w.log")
    lines = text.splitlines()
    assert lines[0] == 'ERROR: //m:p: failed in the stage "export": ValueError: too wide'
    assert lines[1:4] == [
        "In your code:",
        "  models/failing.py:6 in build: return helper(x)",
        "  models/failing.py:3 in helper: raise ValueError(x)",
    ]
    assert lines[4].startswith("Stages: load 0.0 s, export failed after 0.")
    assert lines[5:] == ["The full stack trace is in /logs/w.log"]
    assert text.endswith("\n")


def test_without_a_log_the_trace_is_part_of_the_message(tmp_path: Path) -> None:
    error, tree = raised(tmp_path, "too wide")
    lines = failure.message(error, "//m:p", Progress(), tree, None).splitlines()
    at = lines.index("The full stack trace:")
    assert lines[at + 1] == "  | Traceback (most recent call last):"
    assert lines[-1] == "  | ValueError: too wide"
    assert not any(line.startswith("Stages:") for line in lines)


def test_paths_are_those_of_the_workspace(tmp_path: Path) -> None:
    tree = tmp_path / "sources"
    files = f"{tree}/_main/models/a.py and {tree}/other/b.py and "
    library = '"/any/where/lib/site-packages/torch/x.py"'
    error = BuildError(files + library)
    assert failure.message(error, "//m:p", Progress(), tree, None) == (
        'ERROR: //m:p: models/a.py and other/b.py and "torch/x.py"\n'
    )


def test_an_error_for_users_has_no_trace(tmp_path: Path) -> None:
    text = failure.message(BuildError("wrong", "right"), "//m:p", failed("load"), tmp_path, "/log")
    lines = text.splitlines()
    assert lines[:2] == ["ERROR: //m:p: wrong", "right"]
    assert len(lines) == 3
    assert lines[2].startswith("Stages: load failed after 0.")


def test_special_errors_have_sentences_of_their_own(tmp_path: Path) -> None:
    def headline(error: BaseException, *stages: str) -> str:
        progress = failed(*stages) if stages else Progress()
        return failure.message(error, "//m:p", progress, tmp_path, "/log").split("\nStages")[0]

    assert headline(MemoryError(), "lower") == (
        'ERROR: //m:p: out of memory in the stage "lower".\n'
        "Give the machine more memory, or fewer jobs at once (--local_resources=memory=…)."
    )
    assert headline(SystemExit(3), "load") == (
        'ERROR: //m:p: the model\'s code called exit(3) in the stage "load".'
    )
    assert headline(KeyError(), "x") == (
        'ERROR: //m:p: failed in the stage "x": KeyError: no message'
    )
    assert headline(KeyError("k")).splitlines()[0] == "ERROR: //m:p: failed: KeyError: 'k'"


def test_long_messages_are_cut(tmp_path: Path) -> None:
    error = ValueError("x" * 5000)
    first = failure.message(error, "//m:p", Progress(), tmp_path, "/log").splitlines()[0]
    assert first.endswith("x … (1000 more characters)")
    assert first.count("x") == 4000


def log_seen(stderr: int | str) -> str:
    """Returns what a process takes for its log whose standard error goes there."""
    places = os.pathsep.join(filter(None, sys.path))
    code = "from etlower.failure import log_of_worker as l; print(l())"
    command = [sys.executable, "-B", "-c", code]
    environment = {**os.environ, "PYTHONPATH": places}
    if isinstance(stderr, int):
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, stderr=stderr, check=True
        )
    else:
        with open(stderr, "wb") as errors:
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, stderr=errors, check=True
            )
    return done.stdout.decode().strip()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system has no /proc")
def test_the_log_of_a_worker_is_its_standard_error(tmp_path: Path) -> None:
    assert log_seen(str(tmp_path / "worker.log")) == str(tmp_path / "worker.log")
    assert log_seen(subprocess.PIPE) == "None"
    assert log_seen(subprocess.DEVNULL) == "None"


def test_progress_counts_stages() -> None:
    progress = Progress()
    assert (progress.current, progress.line()) == ("", "")
    with progress.stage("load"):
        assert progress.current == "load"
    with progress.stage("lower"):
        pass
    assert progress.current == ""
    assert progress.line() == "load 0.0 s, lower 0.0 s"
    facts = progress.as_json()
    assert [stage["name"] for stage in facts["stages"]] == ["load", "lower"]
    assert 1 << 20 < facts["peak_memory_bytes"] < 1 << 40


def test_inputs_are_named_from_the_workspace(tmp_path: Path) -> None:
    """Not by where this machine's Bazel lays them out."""
    error = BuildError("/home/me/.cache/base/execroot/_main/bazel-out/k8/bin/m/cut.gguf: is cut.")
    text = failure.message(error, "//m:p", failed("load"), tmp_path, None)
    assert text.startswith("ERROR: //m:p: bazel-out/k8/bin/m/cut.gguf: is cut.\n")


def test_an_absent_package_is_to_be_added(tmp_path: Path) -> None:
    error = ModuleNotFoundError("No module named 'absent_package'", name="absent_package")
    text = failure.message(error, "//m:p", failed("load"), tmp_path, "/logs/w.log")
    assert "No module named 'absent_package'\nAdd a py_library that provides it to deps" in text


def test_the_log_of_a_worker_on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no /proc, and the kernel is asked for the path of the open file."""
    log = tmp_path / "worker.log"
    log.touch()
    answers = {2: os.fsencode(log).ljust(1024, b"\0")}
    fcntl = types.SimpleNamespace(F_GETPATH=50, fcntl=lambda file, _, buffer: answers[file])
    monkeypatch.setitem(sys.modules, "fcntl", fcntl)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert failure.log_of_worker() == str(log)
    log.unlink()
    assert failure.log_of_worker() is None
