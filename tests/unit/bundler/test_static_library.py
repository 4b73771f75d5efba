"""Static libraries: members, indexes, and the objects that an app needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etbundle.select import select
from etbundle.static_library import Member, read, write

# The smallest ELF header: no segments, no sections.
_ELF = b"\x7fELF\x02\x01\x01" + bytes(57)

MEMBERS = [
    Member("a.o", b"odd", ("a_one", "a_two")),
    Member("a_name_of_more_than_sixteen_letters.o", b"even", ("b",)),
    Member("empty.o", b""),
]


def registering(name: str, operator: str, symbol: str = "") -> Member:
    return Member(name, _ELF + b"\0" + operator.encode() + b"\0", (symbol,) if symbol else ())


@pytest.mark.parametrize("bsd", [False, True])
def test_what_is_written_is_read(tmp_path: Path, bsd: bool) -> None:
    path = tmp_path / "lib.a"
    write(path, MEMBERS, bsd)
    result = read(path)
    assert [m.name for m in result] == [m.name for m in MEMBERS]
    assert [m.symbols for m in result] == [m.symbols for m in MEMBERS]
    assert [m.data.rstrip(b"\0") for m in result] == [m.data for m in MEMBERS]
    write(tmp_path / "again.a", result, bsd)
    assert (tmp_path / "again.a").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("bsd", [False, True])
def test_an_empty_library(tmp_path: Path, bsd: bool) -> None:
    write(tmp_path / "lib.a", [], bsd)
    assert read(tmp_path / "lib.a") == []


def test_no_library(tmp_path: Path) -> None:
    path = tmp_path / "lib.a"
    path.write_bytes(b"!<thin>\n")
    with pytest.raises(BuildError, match=r"lib.a is not a static library: got b'!<thin>"):
        read(path)


@pytest.mark.parametrize("bsd", [False, True])
def test_cut_off_anywhere(tmp_path: Path, bsd: bool) -> None:
    path = tmp_path / "lib.a"
    write(path, MEMBERS, bsd)
    whole = path.read_bytes()
    for end in range(9, len(whole) - 1, 7):
        path.write_bytes(whole[:end])
        try:
            read(path)
        except BuildError as error:
            assert "lib.a is damaged" in str(error)


def test_objects_that_register_what_is_used(tmp_path: Path) -> None:
    library = tmp_path / "libops.a"
    add, sub = registering("add.o", "mine::add.out"), registering("sub.o", "mine::sub.out")
    helper = Member("helper.o", _ELF, ("help",))
    write(library, [add, sub, helper])
    kept, rest = tmp_path / "kept.a", tmp_path / "rest.a"
    result = select(library, {"mine::add.out"}, (), kept, rest)
    assert [m.name for m in read(kept)] == ["add.o"]
    assert [m.name for m in read(rest)] == ["helper.o"]
    assert read(rest)[0].symbols == ("help",)
    assert result.objects == ("add.o",)
    assert (result.size, result.selected_size) == (len(add.data) + len(sub.data), len(add.data))
    assert select(library, set(), (), kept, rest).selected_size == 0


def test_objects_of_backends(tmp_path: Path) -> None:
    library = tmp_path / "libbackends.a"
    known = Member("xnnpack.o", _ELF + b"\0XnnpackBackend\0")
    own = Member("npu.o", _ELF + b"\0OurNpu\0")
    write(library, [known, own])
    kept, rest = tmp_path / "kept.a", tmp_path / "rest.a"
    assert select(library, (), {"OurNpu"}, kept, rest).objects == ("npu.o",)
    assert read(rest) == []


def header(name: str, size: str) -> bytes:
    """The header of a member."""
    return f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{size:<10}`\n".encode()


@pytest.mark.parametrize(
    ("members", "message"),
    [
        # The next member would be this one, for ever.
        (header("a.o/", "-60"), "its member at byte 8 is truncated"),
        (header("a.o/", "9999999999"), "its member at byte 8 is truncated"),
        (header("a.o/", "0x10"), "its member at byte 8 is truncated"),
        (header("#1/-5", "4") + b"abcd", "the name of its member at byte 8 has -5 bytes"),
        (header("#1/99", "4") + b"abcd", "the name of its member at byte 8 has 99 bytes"),
        (header("/", "4") + b"\xff\xff\xff\xff", "its index names 4294967295 symbols"),
        (header("__.SYMDEF", "8") + b"\xff\xff\xff\x7f\0\0\0\0", "has 2147483647 bytes of symbols"),
    ],
)
def test_members_that_cannot_be(tmp_path: Path, members: bytes, message: str) -> None:
    path = tmp_path / "lib.a"
    path.write_bytes(b"!<arch>\n" + members)
    with pytest.raises(BuildError, match=r"lib\.a is damaged: ") as caught:
        read(path)
    assert message in caught.value.what
