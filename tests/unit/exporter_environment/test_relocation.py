"""Library search paths of the copied interpreter: which files get one, and which."""

from __future__ import annotations

import pytest
from install import relocation

TO_LIB = "$ORIGIN/../lib"
COPIES = {"libpython3.11.so.1.0", "libz.so.1"}
OUTSIDE = "/home/me/python/lib"


@pytest.mark.parametrize(
    ("needed", "present", "expected"),
    [
        # libpython is shared, and found by an absolute path,
        (("libpython3.11.so.1.0",), OUTSIDE, TO_LIB),
        # or by no path at all, as the system's.
        (("libpython3.11.so.1.0", "libc.so.6"), "", TO_LIB),
        # Static, nothing to find.
        (("libc.so.6", "libm.so.6"), "", None),
        # Static, but with copied libraries.
        (("libz.so.1", "libc.so.6"), "", TO_LIB),
        # Made to be moved already: it stays, as an RPATH.
        (("libpython3.11.so.1.0",), TO_LIB, TO_LIB),
        (("libz.so.1",), f"$ORIGIN:{TO_LIB}", f"$ORIGIN:{TO_LIB}"),
        (("libz.so.1",), f"{OUTSIDE}:{TO_LIB}", TO_LIB),
        (("libc.so.6",), TO_LIB, None),
        # An absolute path that finds nothing that is needed would still look outside.
        (("libc.so.6",), OUTSIDE, TO_LIB),
    ],
)
def test_search_path(needed: tuple[str, ...], present: str, expected: str | None) -> None:
    """A file is changed if it would look outside or not find a copy, and only then."""
    assert relocation.search_path(needed, present, COPIES, TO_LIB) == expected


def test_libraries_of_the_machine_are_not_copied() -> None:
    """The C library belongs to the machine; others come along."""
    for name in ("libc.so.6", "ld-linux-x86-64.so.2", "libm.so.6", "/usr/lib/libSystem.B.dylib"):
        assert relocation.is_machine(name)
    for name in ("libcrypt.so.1", "libssl.so.3", "libffi.so.8", "/opt/lib/libpython3.11.dylib"):
        assert not relocation.is_machine(name)


def test_otool() -> None:
    """The libraries in otool's output."""
    output = (
        "/x/bin/python3.11:\n"
        "\t@rpath/libpython3.11.dylib (compatibility version 3.11.0, current version 3.11.0)\n"
        "\t/usr/lib/libSystem.B.dylib (compatibility version 1.0.0, current version 1351.0.0)\n"
    )
    libraries = ["@rpath/libpython3.11.dylib", "/usr/lib/libSystem.B.dylib"]
    assert relocation.otool_libraries(output) == libraries
