"""Opens an app in a process of its own, whose accelerator does not survive.

Usage: `load_once.py FOLDER STATE WAY FACT=VALUE…`.

WAY says what happens when a payload for it is loaded: "crash", "kill", or "works". Prints what
the variants came to.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from typing import Any

from runner import emulated
from runner.api.executorch_app import App


def make(_: emulated.Delegate) -> emulated.Run:
    if sys.argv[3] == "crash":
        ctypes.string_at(0)
    if sys.argv[3] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return lambda values: values


def main() -> None:
    emulated.register_backend("VgfBackend", make)
    device: dict[str, str] = dict(fact.split("=", 1) for fact in sys.argv[4:])
    state = sys.argv[2] or None
    with App(sys.argv[1], device=device, state=state) as app:
        came_to: Any = app.variant()
        print(json.dumps(came_to))


if __name__ == "__main__":
    main()
