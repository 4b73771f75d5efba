"""bazel run //tools/remote: starts a remote cache or a remote executor on this machine."""

import sys

from etremote.cli import main

if __name__ == "__main__":
    sys.exit(main())
