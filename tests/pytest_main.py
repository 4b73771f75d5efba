"""Runs pytest on the files that it is given; nothing is written beside them."""

import os
import sys

import pytest

if __name__ == "__main__":
    scratch = os.environ.get("TEST_TMPDIR", "/tmp")
    options = ["-p", "no:cacheprovider", "-q", "--rootdir=.", f"--basetemp={scratch}/pytest"]
    report = os.environ.get("XML_OUTPUT_FILE")
    if report:
        options.append(f"--junitxml={report}")
    sys.exit(pytest.main(options + sys.argv[1:]))
