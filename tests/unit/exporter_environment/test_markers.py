"""Environment markers."""

from __future__ import annotations

import pytest
from exporter_environment import markers
from fake_pip import LINUX


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ("", True),
        ("sys_platform == 'linux'", True),
        ("sys_platform == 'darwin' or platform_machine == 'x86_64'", True),
        ("sys_platform == 'linux' and (platform_machine == 'aarch64')", False),
        ("'linux' in sys_platform", True),
        ("sys_platform not in 'win32 cygwin'", True),
        ("python_full_version < '3.12'", True),
        ("python_full_version >= '3.11'", True),
        ("python_version == '3.11.0'", True),
        ("'3.9' < python_version", True),  # as versions, not as text
        ("python_version <= '3.9'", False),
        ("extra == 'vgf'", False),
    ],
)
def test_matches(marker: str, holds: bool) -> None:
    """Values and versions are compared as requirements want it."""
    assert markers.matches(marker, LINUX) is holds


@pytest.mark.parametrize(
    "marker",
    ["sys_platform", "nobody == 'x'", "__import__('os')", "sys_platform == ", "os_name < 'a'"],
)
def test_no_marker(marker: str) -> None:
    """What is no marker is an error and never evaluated."""
    with pytest.raises(ValueError, match=r"marker"):
        markers.matches(marker, LINUX)


def test_host() -> None:
    """This machine gives a value for every name."""
    assert set(markers.host_environment()) == set(LINUX)
