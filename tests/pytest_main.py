"""Runs pytest on the files that it is given; nothing is written beside them.

Tests that are marked with `release` run in `//tests:release` only.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest


class Shard:
    """Every n-th test, where Bazel runs a target's tests in n shards."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        shards = int(os.environ.get("TEST_TOTAL_SHARDS") or 1)
        if shards > 1:
            Path(os.environ["TEST_SHARD_STATUS_FILE"]).touch()
            items[:] = items[int(os.environ["TEST_SHARD_INDEX"]) :: shards]


def import_executorch() -> None:
    """As the exporter does: upstream's parser would take a second for its table of operators."""
    if all(importlib.util.find_spec(name) for name in ("etfast", "torch")):
        from etfast import path

        path.import_executorch("fast")


if __name__ == "__main__":
    import_executorch()
    scratch = os.environ.get("TEST_TMPDIR", "/tmp")
    options = ["-p", "no:cacheprovider", "-q", "--rootdir=.", f"--basetemp={scratch}/pytest"]
    options += ["-o", "markers=release: takes minutes, and only //tests:release runs it"]
    options += ["-m", os.environ.get("PYTEST_SELECTION", "not release")]
    report = os.environ.get("XML_OUTPUT_FILE")
    if report:
        options.append(f"--junitxml={report}")
    sys.exit(pytest.main(options + sys.argv[1:], [Shard()]))
