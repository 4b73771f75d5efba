"""What `bazelw` was called with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bootstrap.layout import Layout


@dataclass(frozen=True)
class Request:
    """What `bazelw` was called with.

    Attributes:
        layout: the cache.
        workspace: the workspace's root, or None outside of one.
        self_path: `bazelw` itself.
        bazel_on_path: first `bazel` on PATH that is not it, or "".
        bazelisk_on_path: the same for `bazelisk`.
        arguments: the user's.
    """

    layout: Layout
    workspace: Path | None
    self_path: Path
    bazel_on_path: str
    bazelisk_on_path: str
    arguments: Sequence[str]
