"""Runs pytest on the files that it is given; nothing is written beside them.

Tests that are marked with `release` run in `//tests:release` only.
"""

import os
import sys

import pytest

if __name__ == "__main__":
    scratch = os.environ.get("TEST_TMPDIR", "/tmp")
    options = ["-p", "no:cacheprovider", "-q", "--rootdir=.", f"--basetemp={scratch}/pytest"]
    options += ["-o", "markers=release: takes minutes, and only //tests:release runs it"]
    options += ["-m", os.environ.get("PYTEST_SELECTION", "not release")]
    report = os.environ.get("XML_OUTPUT_FILE")
    if report:
        options.append(f"--junitxml={report}")
    sys.exit(pytest.main(options + sys.argv[1:]))
