"""Without Vulkan's driver, or without Vulkan, a test of a program says so."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

_TEST = Path("tests/backends/vulkan/newer_test")


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        # The loader, without a driver that it could load.
        (
            r"(VK_ICD_FILENAMES)=.*",
            r"\1=/nowhere.json",
            "found no driver for Vulkan on this machine",
        ),
        # Neither.
        (r"executorch_lavapipe/", "nowhere/", "found no Vulkan on this machine (libvulkan.so)"),
    ],
)
def test_what_is_missing_is_said(
    pattern: str, replacement: str, message: str, tmp_path: Path
) -> None:
    script = tmp_path / "newer_test"
    changed, count = re.subn(pattern, replacement, _TEST.read_text())
    assert count
    script.write_text(changed)
    runfiles = os.environ.get("RUNFILES_DIR") or os.environ["TEST_SRCDIR"]
    environment = {**os.environ, "RUNFILES_DIR": os.path.abspath(runfiles)}
    result = subprocess.run(
        ["sh", script], env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert f"needs the backend VulkanBackend, which {message}" in result.stderr
    assert "damaged" not in result.stderr
