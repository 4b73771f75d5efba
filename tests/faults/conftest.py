"""The worker that all faults are sent to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
sys.path.insert(0, str(Path(__file__).absolute().parent))

from exporter_process import Exporter


@pytest.fixture(scope="session")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exporter]:
    """One worker for all faults: each must leave it alive."""
    started = Exporter(tmp_path_factory.mktemp("worker") / "log")
    yield started
    started.close()
