"""`bazel run //tools/etcli/reproduce -- LABEL…`: see cli.py."""

import sys

from etcli.reproduce.cli import main

if __name__ == "__main__":
    sys.exit(main())
