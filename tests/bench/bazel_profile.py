"""Reads the actions of a build from Bazel's profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

# A span in Bazel's profile, by category or name, that only an action has that is run.
_RUNS = {"waiting for response from worker", "subprocess.run"}


def counted(events: Iterable[Mapping[str, Any]]) -> tuple[dict[str, int], dict[str, int]]:
    """Actions of these rules in Bazel's profile by kind: how many ran, how many were cached.

    One that ran has what runs it inside of its own time, in the same thread.
    """
    spans = [e for e in events if e.get("ph") == "X"]
    begun = [(e["tid"], e["ts"]) for e in spans if {e.get("cat"), e["name"]} & _RUNS]
    ran: dict[str, int] = {}
    cached: dict[str, int] = {}
    for event in spans:
        kind = event.get("args", {}).get("mnemonic", "")
        if event.get("cat") != "action processing" or not kind.startswith("Et"):
            continue
        end = event["ts"] + event["dur"]
        inside = any(tid == event["tid"] and event["ts"] <= at <= end for tid, at in begun)
        counts = ran if inside else cached
        counts[kind] = counts.get(kind, 0) + 1
    return dict(sorted(ran.items())), dict(sorted(cached.items()))
