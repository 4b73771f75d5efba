"""`bazel run //tools/reproduce -- LABEL…`: see cli.py."""

import sys

from etreproduce.cli import main

if __name__ == "__main__":
    sys.exit(main())
