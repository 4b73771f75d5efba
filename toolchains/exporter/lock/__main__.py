"""Writes the locks: `python3.11 -I path/to/lock --help`."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from install import bootstrap  # noqa: E402  (needs the path)

if __name__ == "__main__":
    bootstrap.start("lock.locking", needs_pip=True)
