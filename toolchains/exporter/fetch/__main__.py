"""Finds files of packages: `python3 -I path/to/fetch --help`."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from fetch import cli  # noqa: E402  (needs the path)

if __name__ == "__main__":
    sys.exit(cli.main(sys.argv[1:]))
