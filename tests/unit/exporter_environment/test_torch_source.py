"""Where torch is taken from, by what pip's own settings offer."""

from __future__ import annotations

import pytest
from exporter_environment import torch_source
from exporter_environment.locks import Requirement

INDEX = "https://cpu.example/whl"
TORCH = Requirement("torch", "2.13.0", "", frozenset({"a" * 64}))

OFFERS_CPU = """\
torch (2.15.0)
Available versions: 2.15.0, 2.14.1, 2.13.0+cpu, 2.13.0, 2.12.1+cpu
WARNING: pip index is currently an experimental command.
"""
OFFERS_CUDA = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.13.0, 2.12.1+cpu\n"
OFFERS_OTHERS = "torch (2.15.0)\nAvailable versions: 2.15.0\n"
NOTHING = "ERROR: No matching distribution found for torch\n"


def test_available_versions() -> None:
    """Read from among pip's other lines; no answer is not an empty answer."""
    assert torch_source.available_versions(OFFERS_CUDA) == ("2.15.0", "2.13.0", "2.12.1+cpu")
    assert torch_source.available_versions(NOTHING) is None


@pytest.mark.parametrize(
    ("said", "platform", "index", "options", "found"),
    [
        # A CPU build is there: an additional index that may not be reached is never asked.
        (OFFERS_CPU, "linux", INDEX, (), True),
        (OFFERS_CPU, "linux", "", (), True),
        # The registry's build for Linux is a CUDA build.
        (OFFERS_CUDA, "linux", INDEX, ("--index-url", INDEX), True),
        (OFFERS_CUDA, "linux", "", (), False),
        # Its build for macOS is what is wanted.
        (OFFERS_CUDA, "darwin", INDEX, (), True),
        # Not there at all, or pip could not tell.
        (OFFERS_OTHERS, "darwin", INDEX, ("--index-url", INDEX), True),
        (OFFERS_OTHERS, "linux", INDEX, ("--index-url", INDEX), True),
        (NOTHING, "linux", INDEX, ("--index-url", INDEX), True),
    ],
)
def test_decide(
    said: str, platform: str, index: str, options: tuple[str, ...], found: bool
) -> None:
    """The index of CPU builds is used where pip's own settings have none, and only there."""
    versions = torch_source.available_versions(said)
    decision = torch_source.decide(TORCH, versions, platform, index)
    assert (decision.options, decision.found) == (options, found)
    assert decision.reason


def test_local_version_in_the_lock() -> None:
    """A lock may name the CPU build itself."""
    wanted = Requirement("torch", "2.13.0+cpu", "", TORCH.hashes)
    assert torch_source.decide(wanted, ("2.13.0+cpu",), "linux", INDEX).options == ()
    assert torch_source.decide(wanted, ("2.13.0",), "linux", INDEX).options


def test_hints() -> None:
    """A failed download says what else can be done."""
    cuda = torch_source.available_versions(OFFERS_CUDA)
    assert "mirror" in torch_source.decide(TORCH, cuda, "linux", INDEX).hint()
    assert "CUDA" in torch_source.decide(TORCH, cuda, "linux", "").hint()
    assert torch_source.OWN_SETTINGS.hint() == ""
