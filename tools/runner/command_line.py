"""The runner's command line, with the libraries that programs need beside the runtime's.

Contract: `python -m runner.command_line [ARGUMENT …]`, as `tools/runner` takes them.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from etbuild.errors import BuildError
from etlink import pte
from runner import runtime, twin
from runner.api import executorch_app


def main() -> None:
    """Loads libraries, and hands the arguments to the runner, which ends the process."""
    words = sys.argv[1:]
    try:
        library = runtime.emulated_library()
        if library is None:
            runtime.load_libraries()
        for option, value in zip(words, words[1:], strict=False):
            if option == "--program" and Path(value).is_file():
                note = twin.notice(Path(value), Path(value).name)
                if note:
                    print(note, file=sys.stderr)
                # The runner itself says what it lacks, and what is wrong with a file.
                with contextlib.suppress(BuildError):
                    runtime.check_needs(pte.read(Path(value)), value)
    except BuildError as error:
        sys.exit(f"error: {error.what} {error.hint}".strip())
    executorch_app.main(words, library)


if __name__ == "__main__":
    main()
