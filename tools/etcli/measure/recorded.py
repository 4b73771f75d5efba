"""Reads recorded events, in a process that imports torch: upstream's Inspector needs it.

Contract: `python -m etcli.measure.recorded REQUEST.json ANSWER.json`, started by `process.ask`. The
request has `program`, `cases` (title to `method` and `file`), and `report` (the program's, which
says which module each event is of; or "").
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from etlink.process import serve

from etcli.measure import events, modules


def summaries(request: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the parts of each case's time, by its title."""
    known = modules.read(Path(request["report"])) if request["report"] else None
    found = {}
    for title, case in request["cases"].items():
        timeline = events.read(Path(case["file"]), case["method"], Path(request["program"]))
        found[title] = events.summary(timeline)
        if known is not None:
            found[title]["modules"] = modules.of_method(timeline, case["method"], known)
    return found


if __name__ == "__main__":
    sys.exit(serve(summaries))
