"""Runs pytest on the files that it is given; nothing is written beside them.

Tests that are marked with `release` run in `//tests:release` only. So do, where a target has
`release = True`, those of a function that is marked with `few(n)`, but for n of its sets of
parameters: the first, the last, and what lies evenly between them.
"""

import importlib.util
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest


class Few:
    """Marks with `release` what `few` leaves to it."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        by_function: dict[str, list[pytest.Item]] = {}
        for item in items:
            if item.get_closest_marker("few") and not item.get_closest_marker("release"):
                by_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
        for several in by_function.values():
            (count,) = several[0].get_closest_marker("few").args
            kept = {n * (len(several) - 1) // max(count - 1, 1) for n in range(count)}
            for number, item in enumerate(several):
                if number not in kept:
                    item.add_marker("release")


class Shard:
    """Every n-th test, where Bazel runs a target's tests in n shards."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        shards = int(os.environ.get("TEST_TOTAL_SHARDS") or 1)
        if shards > 1:
            Path(os.environ["TEST_SHARD_STATUS_FILE"]).touch()
            items[:] = items[int(os.environ["TEST_SHARD_INDEX"]) :: shards]


class FastPath:
    """Lowers by the fast path, as the exporter does."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Installs it once the tests have imported what its units replace functions of."""
        from etfast import path

        with path.chosen("fast"):
            return (yield)


def import_executorch() -> None:
    """As the exporter does: upstream's parser would take a second for its table of operators."""
    if all(importlib.util.find_spec(name) for name in ("etfast", "torch")):
        from etfast import path

        path.import_executorch("fast")


if __name__ == "__main__":
    import_executorch()
    scratch = os.environ.get("TEST_TMPDIR", "/tmp")
    options = ["-p", "no:cacheprovider", "-q", "--rootdir=.", f"--basetemp={scratch}/pytest"]
    marks = "release: takes minutes, and only //tests:release runs it\n"
    marks += "few(count): //tests:release runs all sets of parameters"
    options += ["-o", f"markers={marks}"]
    options += ["-m", os.environ.get("PYTEST_SELECTION", "not release")]
    report = os.environ.get("XML_OUTPUT_FILE")
    if report:
        options.append(f"--junitxml={report}")
    plugins: list[object] = [Few(), Shard()] if "PYTEST_SELECTION" in os.environ else [Shard()]
    if "FAST_PATH" in os.environ:
        plugins.append(FastPath())
    sys.exit(pytest.main(options + sys.argv[1:], plugins))
