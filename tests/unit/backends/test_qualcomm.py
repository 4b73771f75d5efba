"""QNN's payloads and contexts: signatures, chips, state, and what is refused."""

from __future__ import annotations

import struct

import pytest
import qualcomm_reproducible

_HEAD = struct.Struct("<IQQ")


def _payload(content: bytes, clock: int) -> bytes:
    return _HEAD.pack(0x5678ABCD, clock, len(content)) + content


def _signatures(payloads: list[bytes]) -> list[bytes]:
    return [payload[4:12] for payload in qualcomm_reproducible.signed(payloads)]


def test_clock_is_gone() -> None:
    """Equal contents give equal bytes, whenever they were made."""
    first = [_payload(b"a", 1), _payload(b"b", 2)]
    second = [_payload(b"a", 7), _payload(b"b", 9)]
    assert qualcomm_reproducible.signed(first) == qualcomm_reproducible.signed(second)
    assert [p[12:] for p in qualcomm_reproducible.signed(first)] == [p[12:] for p in first]


def test_contexts_keep_apart() -> None:
    """The runtime would take two contexts with one signature for one."""
    same_content = _signatures([_payload(b"a", 1), _payload(b"a", 2)])
    assert len(set(same_content)) == 2
    shared = _signatures([_payload(b"a", 1), _payload(b"b", 2), _payload(b"a", 1)])
    assert shared[0] == shared[2] != shared[1]
    # Another program that begins alike.
    assert _signatures([_payload(b"a", 1)])[0] not in same_content


def test_signature_is_a_positive_number() -> None:
    for content in (b"", b"a", bytes(1000)):
        (payload,) = qualcomm_reproducible.signed([_payload(content, 5)])
        assert struct.unpack_from("<q", payload, 4)[0] > 0


@pytest.mark.parametrize(
    "payload",
    [b"", b"short", bytes(64), _payload(b"cut", 1)[:-1], struct.pack("<IQQ", 1, 2, 0)],
)
def test_other_payloads_stay(payload: bytes) -> None:
    """Payloads of other kinds come back as they are."""
    assert qualcomm_reproducible.signed([payload]) == [payload]
