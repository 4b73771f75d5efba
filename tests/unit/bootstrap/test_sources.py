"""The machine's apt sources, in both formats."""

from __future__ import annotations

from pathlib import Path

import pytest
from bootstrap.console import BootstrapError
from bootstrap.sources import (
    Source,
    find_debian,
    parse_deb822,
    parse_one_line,
    read_sources,
)

DEB822 = """\
# A comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/some.gpg

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm

Enabled: no
Types: deb
URIs: http://disabled.example/debian
Suites: bookworm

Types: deb
URIs: http://a.example/x http://b.example/x
Suites: nodistro
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
"""


def test_deb822() -> None:
    """Stanzas without binary packages and disabled ones do not count; a key may be inline."""
    assert parse_deb822(DEB822, "f") == [
        Source(
            "http://mirror.example/debian",
            ("bookworm", "bookworm-updates"),
            "/usr/share/keyrings/some.gpg",
            "f",
        ),
        Source("http://a.example/x", ("nodistro",), "", "f"),
        Source("http://b.example/x", ("nodistro",), "", "f"),
    ]


def test_one_line() -> None:
    """With and without options; comments and deb-src do not count."""
    text = """\
# deb http://no.example/debian bookworm main
deb http://plain.example/debian trixie main contrib
deb [arch=amd64 signed-by=/k.gpg] https://opt.example/debian sid main
deb-src http://src.example/debian sid main
"""
    assert parse_one_line(text, "f") == [
        Source("http://plain.example/debian", ("trixie",), "", "f"),
        Source("https://opt.example/debian", ("sid",), "/k.gpg", "f"),
    ]


def test_read_sources_takes_only_what_apt_takes(tmp_path: Path) -> None:
    """Files with other endings are none of apt's."""
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://one.example/debian bookworm main\n")
    (parts / "b.list").write_text("deb http://two.example/debian sid main\n")
    (parts / "a.sources").write_text("Types: deb\nURIs: http://three.example/\nSuites: sid\n")
    (parts / "c.list.disabled").write_text("deb http://four.example/debian sid main\n")
    uris = [source.uri for source in read_sources(tmp_path)]
    assert uris == [
        "http://one.example/debian",
        "http://three.example/",
        "http://two.example/debian",
    ]


def test_find_passes_over_other_vendors() -> None:
    """The first archive with a suite of Debian's is taken."""
    sources = [
        Source("http://vendor.example/apt", ("nodistro",), "", "v"),
        Source("http://security.example/debian-security", ("bookworm-security",), "", "s"),
        Source("http://mirror.example/debian", ("bookworm", "bookworm-updates"), "", "m"),
    ]
    assert find_debian(sources, {}).uri == "http://mirror.example/debian"


def test_find_prefers_the_variable() -> None:
    """Whoever sets the variable means it."""
    variable = {"RULES_EXECUTORCH_DEBIAN_MIRROR": "http://mine.example/debian"}
    found = find_debian([Source("http://m.example/debian", ("sid",), "", "m")], variable)
    assert found.uri == "http://mine.example/debian"
    assert found.origin == "$RULES_EXECUTORCH_DEBIAN_MIRROR"


def test_find_tells_what_it_got() -> None:
    """Another distribution's suites are named, and the variable that helps."""
    with pytest.raises(BootstrapError) as caught:
        find_debian([Source("http://u.example/ubuntu", ("noble",), "", "u")], {})
    assert "got noble" in caught.value.reason
    assert "RULES_EXECUTORCH_DEBIAN_MIRROR" in caught.value.remedies[0]


def test_find_without_any_source() -> None:
    """No source at all."""
    with pytest.raises(BootstrapError, match="got none"):
        find_debian([], {})


def test_keyring_of_the_source_if_it_is_there(tmp_path: Path) -> None:
    """The source's own keyring comes first; one that is missing is not handed to apt."""
    keyring = tmp_path / "k.gpg"
    keyring.touch()
    source = Source("http://m.example/debian", ("sid",), str(keyring), "m")
    assert find_debian([source], {}).signed_by == str(keyring)
    gone = Source("http://m.example/debian", ("sid",), str(tmp_path / "gone"), "m")
    assert find_debian([gone], {}).signed_by != str(tmp_path / "gone")
