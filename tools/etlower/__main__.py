"""The exporter's program.

Contract: `etlower [--packages JSON …] @FILE` runs one request; with `--persistent_worker`
instead of the file it serves WorkRequests on standard input. `etlower.flags` has a request's
flags, `etlower.packages` what the JSON says.
"""

from __future__ import annotations

import os
import sys

from etlower import child, packages


def main() -> int:
    """Runs a request, or serves them; returns the exit code."""
    arguments = packages.install_given(sys.argv[1:])
    if "--persistent_worker" not in arguments:
        code, message = child.execute(arguments)
        sys.stderr.write(message)
        return code
    from etlower import lower
    from etlower.admission import Admission
    from etlower.worker import Worker

    # Responses keep the real standard output; all else that is printed goes to the log.
    responses = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    lower.preload()
    Worker(sys.stdin.buffer, responses, child.execute, Admission()).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())
