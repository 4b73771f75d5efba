"""Common parts of benchmarks of lowerings: requests, processes, pictures, actions of a build."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import actions
import bazel_profile
import drawing
import pytest


def test_an_action_is_tool_module_and_request() -> None:
    """Taken apart at the exporter's command; the environment is only what the action has."""
    words = ["etlower", "--packages", '{"a": "b"}']
    arguments = ["bin/tool", *words, "lower", "--output=a", "--args={}"]
    variables = [{"key": "B", "value": "2"}, {"key": "A"}]
    answer = {"arguments": arguments, "environmentVariables": variables}
    action = actions.parsed(Path("/root"), answer)
    assert action.tool == ("env", "-i", "A=", "B=2", "bin/tool")
    assert action.module == tuple(words)
    assert action.request == ("lower", "--output=a", "--args={}")
    assert action.value("--args") == "{}"
    with pytest.raises(SystemExit, match="the request has --label 0 times, expected once"):
        action.value("--label")


def test_changed_flags_are_there_once() -> None:
    """Also one that the request lacks; others, and values with "=", stay."""
    request = ["lower", "--output=a", "--data=x=y", "--data=v=w"]
    changed = actions.changed(request, {"--output": "b", "--args": '{"a": "="}'})
    assert changed == ["lower", "--data=x=y", "--data=v=w", "--output=b", '--args={"a": "="}']


def test_a_cost_is_that_of_one_process(tmp_path: Path) -> None:
    """Not of those before it."""
    large = actions.timed([sys.executable, "-c", "x = b'1' * (200 << 20)"], tmp_path)
    small = actions.timed([sys.executable, "-c", "import time; time.sleep(0.2)"], tmp_path)
    assert large.peak_memory_bytes > 200 << 20 > small.peak_memory_bytes
    assert small.seconds > max(0.2, small.cpu_seconds)
    with pytest.raises(SystemExit, match="(?s) … failed:.*no such luck"):
        actions.timed([sys.executable, "-c", "raise SystemExit('no such luck')"], tmp_path)


def test_pictures_have_all_figures() -> None:
    """Bars for each part, a line for each series; names are escaped."""
    bars = drawing.bars([("a & b", {"load": 1.0, "lower": 3.0}, 4.5), ("c", {"load": 2.0}, 12.0)])
    texts = _texts(bars)
    assert {"a & b", "c", "4.5 s", "12 s", "load", "lower", "load: 1.0 s"} <= texts
    assert len(ElementTree.fromstring(bars).findall(".//{*}rect")) == 3 + 2
    lines = drawing.lines({"<all>": {10: 4.0, 5: 1.0}, "load": {5: 1.0, 10: 1.0}}, "layers")
    assert {"<all>", "load", "5", "10", "4.0 s", "layers"} <= _texts(lines)
    points = [e.get("points") for e in ElementTree.fromstring(lines).findall(".//{*}polyline")]
    # From the smaller depth to the larger one; the longest time is at the top.
    assert points == ["340.0,245.0 620.0,20.0", "340.0,245.0 620.0,245.0"]


def _texts(picture: str) -> set[str]:
    return {element.text for element in ElementTree.fromstring(picture).iter() if element.text}


def test_actions_that_ran_and_those_that_a_cache_had() -> None:
    """By what lies inside of their time, in their thread; Bazel's own don't count."""

    def action(kind: str, thread: int, at: int) -> dict[str, object]:
        place = {"ph": "X", "tid": thread, "ts": at, "dur": 100}
        return {"cat": "action processing", "name": kind, "args": {"mnemonic": kind}, **place}

    worker = {"cat": "waiting for response from worker", "name": "Worker #1 working"}
    sandbox = {"cat": "general information", "name": "subprocess.run"}
    events = [
        {"ph": "M", "name": "thread_name"},
        action("EtLower", 1, 0),
        {**worker, "ph": "X", "tid": 1, "ts": 10, "dur": 50},
        action("EtLower", 2, 0),
        action("EtLink", 1, 200),
        {**sandbox, "ph": "X", "tid": 1, "ts": 210, "dur": 50},
        action("FileWrite", 1, 400),
    ]
    ran, cached = bazel_profile.counted(events)
    assert (ran, cached) == ({"EtLink": 1, "EtLower": 1}, {"EtLower": 1})
