"""A stamped build's record of its source: Bazel's workspace status files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from etbuild.errors import BuildError

# Keys of --workspace_status_command whose changes make Bazel stamp again.
_OF_WORKSPACE = "STABLE_"
_REVISIONS = ("_REVISION", "_COMMIT", "_SHA")
# The time of the source, by the convention of reproducible builds; preferred to that of the build.
_SOURCE_TIME = "STABLE_SOURCE_DATE_EPOCH"
_BUILD_TIME = "BUILD_TIMESTAMP"


@dataclass(frozen=True)
class Stamp:
    """The source and the time of a release.

    Attributes:
        status: the keys that begin with STABLE_.
        timestamp: in ISO 8601, UTC; empty: unknown.
    """

    status: Mapping[str, str]
    timestamp: str

    @property
    def revisions(self) -> list[str]:
        """Values of keys that end in _REVISION, _COMMIT or _SHA, each once."""
        values = [self.status[key] for key in sorted(self.status) if key.endswith(_REVISIONS)]
        return list(dict.fromkeys(value for value in values if value))


def read(stable: Path, volatile: Path) -> Stamp:
    """Reads stable-status.txt and volatile-status.txt.

    Raises:
        BuildError: a time is not a number of seconds.
    """
    stable_pairs, volatile_pairs = _pairs(stable), _pairs(volatile)
    status = {key: value for key, value in stable_pairs.items() if key.startswith(_OF_WORKSPACE)}
    key = _SOURCE_TIME if _SOURCE_TIME in status else _BUILD_TIME
    return Stamp(status, _time(key, status.get(key) or volatile_pairs.get(key, "")))


def _pairs(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {key: value for key, _, value in (line.partition(" ") for line in lines) if key}


def _time(key: str, seconds: str) -> str:
    if not seconds:
        return ""
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise BuildError(
            f'workspace status: {key}: got "{seconds}", expected seconds since 1970.',
            "Correct the program of --workspace_status_command.",
        ) from error
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
