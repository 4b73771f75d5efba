"""Messages about archives are one line, whatever members are called."""

from __future__ import annotations

import io
import zipfile

import pytest
from etbuild.zip_check import ArchiveError, members


def test_a_name_of_any_characters() -> None:
    name = "w\neights\x1b[2J" + 400 * "x" + "last"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("other", b"1")
        archive.filelist[0].filename = name
        archive.filelist[0].flag_bits |= 1
    with pytest.raises(ArchiveError) as caught:
        members(stream)
    message = str(caught.value)
    assert message.isprintable()
    assert message.endswith('last" is encrypted')
    assert len(message) < 310
