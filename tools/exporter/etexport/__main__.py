"""The exporter's program.

Contract: `etexport @FILE` runs one request; `etexport --persistent_worker` serves Bazel's
WorkRequests on standard input. `etexport.flags` has a request's flags.
"""

from __future__ import annotations

import os
import sys

from etexport import child


def main() -> int:
    """Runs a request, or serves them; returns the exit code."""
    if "--persistent_worker" not in sys.argv[1:]:
        code, message = child.execute(sys.argv[1:])
        sys.stderr.write(message)
        return code
    from etexport import lower
    from etexport.admission import Admission
    from etexport.worker import Worker

    # Responses keep the real standard output; all else that is printed goes to the log.
    responses = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    lower.preload()
    Worker(sys.stdin.buffer, responses, child.execute, Admission()).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
