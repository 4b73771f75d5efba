"""Whether a host answers, without ever waiting long."""

from __future__ import annotations

import time

import pytest
from bootstrap import network


def test_answers() -> None:
    """No reason means that it answers."""
    assert network.why_unreachable("https://host.example/x", lambda url: "") == ""


def test_refusal_names_the_host() -> None:
    """The host and why."""
    reason = network.why_unreachable("https://host.example/x", lambda url: "refused")
    assert reason == "host.example: refused"


def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that never answers does not hold us up."""
    monkeypatch.setattr(network, "TIME_LIMIT_SECONDS", -0.4)

    def silent(url: str) -> str:
        time.sleep(5)
        return url

    started = time.monotonic()
    assert "no answer" in network.why_unreachable("https://host.example/x", silent)
    assert time.monotonic() - started < 2


def test_closed_port() -> None:
    """A real refusal of a connection."""
    assert "127.0.0.1:9" in network.why_unreachable("http://127.0.0.1:9/")


def test_files_need_no_network() -> None:
    """A registry on disk."""
    assert network.why_unreachable("file:///nowhere") == ""
