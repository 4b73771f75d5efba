"""Reads short strings out of x86-64 code: compilers write them as numbers in instructions.

A C++ string of at most 22 characters lies in the object itself, so a constant one takes a few
stores: its length, and up to two numbers of 8 bytes that overlap. Such a text lies nowhere in the
file as a whole. Longer ones, and those of other processors, are constants that end with a zero.

    c6 44 24 08 1e              mov byte [rsp+8], 30       twice the length, as libc++ has it
    48 b9 "aten.sub"            movabs rcx, …
    48 89 4c 24 09              mov [rsp+9], rcx
    48 b9 "b.Tensor"            movabs rcx, …
    48 89 4c 24 10              mov [rsp+16], rcx
    c6 44 24 18 00              mov byte [rsp+24], 0

The second number may have been loaded into its register earlier, for several strings.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

# Of an ELF header: its first bytes, where the machine stands, and the number of this one.
_ELF = b"\x7fELF"
_MACHINE = 18
_X86_64 = 62

# A store of twice the length, and a number after it.
_START = re.compile(
    rb"\xc6\x44\x24(.)([\x04-\x2c])(?=[\x48\x49][\xb8-\xbf]|\xc7\x44\x24)", re.DOTALL
)
# How far before a string a register's number is looked for, in bytes.
_EARLIER = 4096
_LONGEST = 22


def short_strings(data: bytes) -> set[bytes]:
    """The strings that code for x86-64 writes as numbers.

    Args:
      data: bytes of an ELF file, or of an archive of them.

    Returns:
      Strings of printable characters, with some that only look like strings; of a file for another
      processor none.
    """
    header = data.find(_ELF)
    is_cut = header < 0 or len(data) < header + _MACHINE + 2
    if is_cut or struct.unpack_from("<H", data, header + _MACHINE)[0] != _X86_64:
        return set()
    return set(_strings(data))


def _strings(data: bytes) -> Iterator[bytes]:
    for match in _START.finditer(data):
        first, length = match[1][0] + 1, match[2][0]
        if length % 2:
            continue
        written = bytearray(_LONGEST + 2)
        _follow(data, match.end(), first, written)
        text = bytes(written[: length // 2])
        if text.isascii() and text.decode().isprintable() and not any(written[length // 2 :]):
            yield text


def _follow(data: bytes, at: int, first: int, written: bytearray) -> None:
    """Carries out stores of numbers on the stack, up to the first other instruction."""
    registers: dict[int, bytes] = {}
    while True:
        code = data[at : at + 10]
        if re.match(rb"[\x48\x49][\xb8-\xbf]", code, re.DOTALL) and len(code) == 10:
            registers[_register(code[0] & 1, code[1] & 7)] = code[2:]
            at += 10
        elif re.match(rb"[\x48\x4c]\x89[\x44\x4c\x54\x5c\x64\x6c\x74\x7c]\x24", code, re.DOTALL):
            number = _register(code[0] >> 2 & 1, code[2] >> 3 & 7)
            value = registers.get(number) or _earlier(data, at, number)
            _store(written, code[4] - first, value)
            at += 5
        elif code.startswith(b"\xc7\x44\x24"):
            _store(written, code[3] - first, code[4:8])
            at += 8
        elif code.startswith(b"\x66\xc7\x44\x24"):
            _store(written, code[4] - first, code[5:7])
            at += 7
        elif code.startswith(b"\xc6\x44\x24"):
            _store(written, code[3] - first, code[4:5])
            at += 5
        else:
            return


def _register(high: int, low: int) -> int:
    return high << 3 | low


def _earlier(data: bytes, at: int, register: int) -> bytes:
    """Returns the number that a register was last given before a place; empty: none is near."""
    load = bytes([0x48 | register >> 3, 0xB8 | register & 7])
    found = data.rfind(load, max(at - _EARLIER, 0), at)
    return data[found + 2 : found + 10] if found >= 0 else b""


def _store(written: bytearray, place: int, value: bytes) -> None:
    if place >= 0 and place + len(value) <= len(written):
        written[place : place + len(value)] = value
