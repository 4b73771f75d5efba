"""Prints by which name programs load a runtime's library, and the backends that it registers.

`python read_backends.py TOOLS LIBRARY`: TOOLS is the folder of etbundle. The library may be for any
platform.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# ExecuTorch's build renames the file, not this soname, by which linked programs look for it.
_JNI = b"\0libexecutorch_jni.so\0"


def main() -> None:
    """Prints JSON, {"name": …, "backends": […]}, or ends with a sentence."""
    tools, library = sys.argv[1:]
    sys.path.insert(0, tools)
    from etbuild.errors import BuildError
    from etbundle.scan import scan

    path = Path(library)
    try:
        backends = scan(path).backends
    except BuildError as error:
        sys.exit(error.what)
    name = "libexecutorch_jni.so" if _JNI in path.read_bytes() else path.name
    print(json.dumps({"name": name, "backends": backends}))


if __name__ == "__main__":
    main()
