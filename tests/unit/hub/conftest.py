"""A fake hub, and `et pin` that asks it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
HERE = Path(__file__).absolute().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "hub"), str(HERE.parents[2] / "tools")]

from etcli import cli  # noqa: E402
from fake_hub import FakeHub  # noqa: E402
from pinning import Pin, Result  # noqa: E402


@pytest.fixture
def hub() -> Iterator[FakeHub]:
    """A fake hub without models."""
    fake = FakeHub()
    yield fake
    fake.close()


@pytest.fixture
def pin(
    hub: FakeHub,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Pin:
    """Runs `et pin` in this process, on the fake hub, without a token."""
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Result:
        code = cli.main(["pin", *arguments])
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return run
