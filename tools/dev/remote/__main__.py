"""bazel run //tools/dev/remote: starts a remote cache or a remote executor on this machine."""

import sys

from dev.remote.cli import main

if __name__ == "__main__":
    sys.exit(main())
