"""Versions as programs, packages and labels write them; whether a host answers."""

from __future__ import annotations

import time

import pytest
from bootstrap import network
from bootstrap.candidates import MINIMUM, format_version, parse_version


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bazel 7.7.1\n", (7, 7, 1)),
        ("bazel 8.0.0-pre.20240911.1 (@abc)", (8, 0, 0)),
        ("7.7.1+ds-8+b1", (7, 7, 1)),
        ("release 10.0.0rc1", (10, 0, 0)),
        ("bazel no_version", None),
        ("", None),
    ],
)
def test_parse(text: str, expected: tuple[int, ...] | None) -> None:
    """Only the number counts, wherever it stands."""
    assert parse_version(text) == expected


def test_order() -> None:
    """7.10 is newer than 7.7, and 7.6.9 is too old."""
    assert MINIMUM <= (7, 7)
    assert MINIMUM <= (7, 10, 0)
    assert MINIMUM <= (8, 0)
    assert MINIMUM > (7, 6, 9)
    assert MINIMUM > (4, 2, 3)


def test_format() -> None:
    """As users write it."""
    assert format_version((7, 7, 1)) == "7.7.1"


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
