"""Binaries for each platform have its format, and need nothing that the platform lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from binaries import HERE, Elf, MachO, glibc_version, listed

_X86_64, _AARCH64 = 62, 183
_SHARED_OBJECT = 3
_EXECUTABLE, _DYLIB = 2, 6

# Platform to LC_BUILD_VERSION's number of it and the oldest system.
_APPLE = {
    "macos_arm64": (1, (14, 0)),
    "ios_arm64": (2, (17, 0)),
    "ios_sim_arm64": (7, (17, 0)),
}


@pytest.mark.parametrize(
    ("platform", "machine", "interpreter"),
    [
        ("linux_arm64", _AARCH64, "/lib/ld-linux-aarch64.so.1"),
        ("linux_x86_64", _X86_64, "/lib64/ld-linux-x86-64.so.2"),
    ],
)
@pytest.mark.parametrize("kind", ["sample", "library"])
def test_linux(platform: str, machine: int, interpreter: str, kind: str) -> None:
    """Programs run on Debian 12 and on all with glibc 2.28: ELF with old versions of symbols."""
    elf = Elf(HERE / f"{kind}_{platform}")
    assert (elf.kind, elf.machine) == (_SHARED_OBJECT, machine)
    assert elf.interpreter == (interpreter if kind == "sample" else "")
    assert elf.needed <= {
        "libstdc++.so.6",
        "libgcc_s.so.1",
        "libc.so.6",
        "libpthread.so.0",
        "libm.so.6",
        Path(interpreter).name,
    }
    assert "libstdc++.so.6" in elf.needed
    glibc = [glibc_version(v) for v in elf.versions if v.startswith("GLIBC_")]
    libstdcxx = [glibc_version(v) for v in elf.versions if v.startswith("GLIBCXX_")]
    assert glibc and max(glibc) <= (2, 28)
    assert libstdcxx and max(libstdcxx) <= (3, 4, 30)


@pytest.mark.parametrize(
    ("platform", "machine"), [("android_arm64", _AARCH64), ("android_x86_64", _X86_64)]
)
@pytest.mark.parametrize("kind", ["sample", "library"])
def test_android(platform: str, machine: int, kind: str) -> None:
    """Position-independent, pages of 16 KiB, and only bionic symbols of API level 26."""
    elf = Elf(HERE / f"{kind}_{platform}")
    assert (elf.kind, elf.machine) == (_SHARED_OBJECT, machine)
    assert elf.interpreter == ("/system/bin/linker64" if kind == "sample" else "")
    assert elf.page_size >= 16384
    assert elf.needed <= {"libc++_shared.so", "libc.so", "libm.so", "libdl.so", "liblog.so"}
    assert elf.versions == {"LIBC"}
    names = listed(*(f"android/symbols/{name}.txt" for name in ("libc", "libdl", "liblog", "libm")))
    of_system = {
        name
        for name in elf.undefined
        if not name.startswith(("_Z", "__cxa_", "__gxx_", "__dynamic_cast"))
    }
    assert of_system <= names
    assert of_system or kind == "library"
    assert not any(name.startswith("_ZNSt3__1") for name in elf.undefined)
    if kind == "sample":
        assert b"Android\0\x1a\0\0\0" in elf.data


@pytest.mark.parametrize("platform", _APPLE)
@pytest.mark.parametrize("kind", ["sample", "library"])
def test_apple(platform: str, kind: str) -> None:
    """Only for that system, from its version on, with the system's own C++ library."""
    macho = MachO(HERE / f"{kind}_{platform}")
    assert macho.kind == (_EXECUTABLE if kind == "sample" else _DYLIB)
    assert (macho.platform, macho.minimum) == _APPLE[platform]
    assert macho.libraries == {"/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"}
    assert macho.signed == (platform != "ios_arm64")
    cxx = {name for name in macho.undefined if name.startswith(("__Z", "___cxa_", "___gxx"))}
    assert cxx and cxx <= listed("apple/libc++.symbols") | {"___cxa_atexit"}
