"""The same inputs give the same bytes, wherever and however an action runs."""

from __future__ import annotations

from pathlib import Path

from nested import Workspace

# Each model and each way of quantising once.
_BY_ONE_PROCESS_EACH = [
    "//:classifier_groups",
    "//:classifier_portable",
    "//:generated_xnnpack",
    "//:pair1_xnnpack",
    "//:two_methods_int8",
    "//:two_methods_separate",
]


def test_elsewhere_and_without_a_worker(workspace: Workspace, tmp_path: Path) -> None:
    """Another folder, output base and environment; some by a sandboxed process each."""
    workspace.build("//...", "--strategy=EtLower=worker")
    other = Workspace(tmp_path / "deeper" / "two")
    changed = {"PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "2", "TZ": "Asia/Tokyo"}
    flags = ["--action_env=PYTHONHASHSEED=77"]
    try:
        alone = other.build(
            *_BY_ONE_PROCESS_EACH, *flags, "--strategy=EtLower=sandboxed", **changed
        )
        other.build("//...", *flags, **changed)
        here, there = workspace.outputs(), other.outputs()
    finally:
        other.close()
    assert "worker" not in alone.processes
    assert len(here) >= 15
    assert there == here


def test_actions_are_declared_whole(workspace: Workspace) -> None:
    """An action names neither this machine's folders nor its environment, and may use a worker."""
    action = workspace.lowerings("//:classifier_groups")[0]
    words = action["arguments"]
    assert words[1] == "etexport"
    paths = [word.split("=")[-1] for word in words]
    assert [path for path in paths if path.startswith("/") and path[:2] != "//"] == []
    variables = {entry["key"]: entry["value"] for entry in action["environmentVariables"]}
    assert variables["PYTHONHASHSEED"] == "0"
    assert not {"HOME", "PATH", "TMPDIR", "USER"} & set(variables)
    needs = {entry["key"]: entry.get("value", "") for entry in action["executionInfo"]}
    assert needs["requires-worker-protocol"] == "json"
    for name in ("workers", "multiplex-workers", "multiplex-sandboxing", "worker-cancellation"):
        assert needs[f"supports-{name}"] == "1"
