"""A Debian archive: found, asked by apt, and its packages unpacked into one tree."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from debian import apt as debian
from debian.apt import Apt, find_archive, merge, unpack
from debian.command import ActionableError

SIMULATION = """\
NOTE: This is only a simulation!
Reading package lists...
The following NEW packages will be installed:
  bazel-bootstrap libc6
Inst libc6 (2.43-7 Debian:unstable [amd64]) []
Inst libguava-java (33.7.1-1 Debian:unstable [all]) []
Inst libc6:i386 (2.43-7 Debian:unstable [i386])
Inst bazel-bootstrap (7.7.1+ds-8+b1 Debian:unstable [amd64])
Conf libc6 (2.43-7 Debian:unstable [amd64])
"""

DUMP = """\
APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb || true";
DPkg::Post-Invoke:: "touch /etc/x";
Dir::Cache::pkgcache "";
Acquire::http::Proxy "http://proxy.example:3128";
Acquire::https::CaInfo "/etc/ssl/own.pem";
Acquire::Check-Valid-Until "false";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "true";
"""

needs_apt = pytest.mark.skipif(not shutil.which("apt-get"), reason="this machine has no apt")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration directory of the real apt."""
    directory = tmp_path / "etc"
    for name in ("apt.conf.d", "preferences.d", "sources.list.d"):
        (directory / name).mkdir(parents=True)
    configuration = tmp_path / "apt.conf"
    configuration.write_text(f'Dir::Etc "{directory}";\n')
    monkeypatch.setenv("APT_CONFIG", str(configuration))
    monkeypatch.delenv("RULES_EXECUTORCH_DEBIAN_MIRROR", raising=False)
    return directory


@needs_apt
def test_archive_in_deb822(sources: Path, tmp_path: Path) -> None:
    """Disabled stanzas, those of source packages and other vendors' do not count."""
    (tmp_path / "k.gpg").touch()
    (tmp_path / "vendor.gpg").touch()
    (sources / "sources.list.d/a.sources").write_text(
        "# A comment\nEnabled: no\nTypes: deb\nURIs: http://disabled.example/debian\n"
        "Suites: bookworm\nComponents: main\n\n"
        "Types: deb-src\nURIs: http://sources.example/debian\nSuites: sid\nComponents: main\n\n"
        "Types: deb deb-src\nURIs: http://mirror.example/debian\n"
        f"Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: {tmp_path}/k.gpg\n\n"
        "Types: deb\nURIs: http://vendor.example/apt\nSuites: nodistro\nComponents: main\n"
        f"Signed-By: {tmp_path}/vendor.gpg\n"
    )
    assert find_archive() == (
        "http://mirror.example/debian",
        f"{tmp_path}/k.gpg",
        f"{sources}/sources.list.d/a.sources",
    )


@needs_apt
def test_archive_in_one_line(sources: Path, tmp_path: Path) -> None:
    """With options; comments, other files and CDs do not count; sources.list comes first."""
    (tmp_path / "k.gpg").touch()
    (sources / "sources.list").write_text(
        "# deb http://no.example/debian bookworm main\n"
        "deb cdrom:[Debian 12]/ bookworm main\n"
        "deb http://security.example/debian-security bookworm-security main\n"
        f"deb [arch=amd64 signed-by={tmp_path}/k.gpg,/x.gpg] http://one.example/debian sid main\n"
    )
    (sources / "sources.list.d/a.list").write_text("deb http://two.example/debian trixie main\n")
    (sources / "sources.list.d/b.list.disabled").write_text("deb http://b.example/ sid main\n")
    uri, keyring, origin = find_archive()
    assert (uri, keyring) == ("http://one.example/debian", f"{tmp_path}/k.gpg")
    assert origin == f"{sources}/sources.list"


@needs_apt
@pytest.mark.parametrize("key", ["/gone.gpg", "\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc"])
def test_keyring_that_is_no_file(sources: Path, key: str) -> None:
    """A keyring that does not exist, or a key in the stanza, is not handed to our apt."""
    (sources / "sources.list.d/a.sources").write_text(
        "Types: deb\nURIs: http://m.example/debian\nSuites: trixie\nComponents: main\n"
        f"Signed-By: {key}\n"
    )
    assert find_archive()[1] in ("", "/usr/share/keyrings/debian-archive-keyring.gpg")


def test_archive_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets the variable means it."""
    monkeypatch.setenv("RULES_EXECUTORCH_DEBIAN_MIRROR", "http://mine.example/debian")
    uri, _, origin = find_archive()
    assert uri == "http://mine.example/debian"
    assert origin == "$RULES_EXECUTORCH_DEBIAN_MIRROR"


@needs_apt
@pytest.mark.parametrize(
    ("text", "suites"), [("deb http://u.example/ubuntu noble main\n", "noble"), ("", "none")]
)
def test_no_archive(sources: Path, text: str, suites: str) -> None:
    """Another distribution's suites are named, and the variable that helps."""
    (sources / "sources.list").write_text(text)
    with pytest.raises(ActionableError, match=f"got suites {suites}, expected") as caught:
        find_archive()
    assert "RULES_EXECUTORCH_DEBIAN_MIRROR" in caught.value.remedies[0]


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Fake programs of apt: what they print is in files, and apt-get fails if it has errors."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("apt-get", "apt-config"):
        program = directory / name
        program.write_text(
            f'#!/bin/sh\ncat "{tmp_path}/{name}.out"\ncat "{tmp_path}/stderr" >&2\n'
            f'[ ! -s "{tmp_path}/stderr" ] || exit 100\n'
        )
        program.chmod(0o755)
    (tmp_path / "stderr").write_text("")
    (tmp_path / "apt-get.out").write_text(SIMULATION)
    (tmp_path / "apt-config.out").write_text(DUMP)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
    monkeypatch.setenv("RULES_EXECUTORCH_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    return tmp_path


def test_closure(tools: Path) -> None:
    """Packages to install with versions, once each; lines about configuring them do not count."""
    assert Apt(tools / "apt").closure(["bazel-bootstrap"]) == {
        "libc6": "2.43-7",
        "libguava-java": "33.7.1-1",
        "bazel-bootstrap": "7.7.1+ds-8+b1",
    }


def test_network_settings(tools: Path) -> None:
    """Proxies and certificates are kept; hooks that write to the system are not."""
    Apt(tools / "apt")
    configuration = (tools / "apt/apt.conf").read_text()
    kept = [line for line in DUMP.splitlines() if f"\n{line}\n" in configuration]
    assert kept == [
        'Acquire::http::Proxy "http://proxy.example:3128";',
        'Acquire::https::CaInfo "/etc/ssl/own.pem";',
        'Acquire::Check-Valid-Until "false";',
    ]


@needs_apt
def test_state_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the machine's package state is named in what apt itself reads."""
    monkeypatch.setenv("RULES_EXECUTORCH_DEBIAN_MIRROR", "http://127.0.0.1:9/debian")
    Apt(tmp_path / "apt")
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt/apt.conf"))
    names = ("State", "State::status", "State::lists", "Cache", "Cache::archives", "Log")
    names += ("Etc::sourcelist", "Etc::sourceparts", "Etc::parts", "Etc::preferencesparts")
    for name in names:
        output = subprocess.run(
            ["apt-config", "shell", "path", f"Dir::{name}/f"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert output.stdout.startswith(f"path='{tmp_path}/apt/"), name
    sources = (tmp_path / "apt/etc/apt/sources.list").read_text()
    assert sources.endswith(" http://127.0.0.1:9/debian sid main\n")


def test_other_suite(tools: Path) -> None:
    """Packages of another release and for another processor."""
    Apt(tools / "apt", suite="bookworm", architecture="arm64")
    sources = (tools / "apt/etc/apt/sources.list").read_text()
    assert sources.endswith("/debian bookworm main\n")
    configuration = (tools / "apt/apt.conf").read_text()
    assert 'APT::Architectures { "arm64"; };' in configuration


@pytest.mark.parametrize(
    ("stderr", "remedy"),
    [
        ("W: GPG error: NO_PUBKEY 123\nE: The repository is not signed.", "debian-archive-keyring"),
        ("E: Could not connect", "RULES_EXECUTORCH_DEBIAN_MIRROR"),
        ("E: write error - write (28: No space left on device)", "disk space"),
    ],
)
def test_failures_tell_what_to_do(tools: Path, stderr: str, remedy: str) -> None:
    """apt's own words, the archive, what names it, and a remedy."""
    apt = Apt(tools / "apt")
    (tools / "stderr").write_text(stderr)
    with pytest.raises(ActionableError) as caught:
        apt.update()
    assert stderr.splitlines()[-1] in caught.value.reason
    assert caught.value.reason.startswith(
        "http://127.0.0.1:9/debian sid (from $RULES_EXECUTORCH_DEBIAN_MIRROR): "
        "cannot read the package lists:\n"
    )
    assert remedy in " ".join(caught.value.remedies)


def test_without_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ActionableError, match="apt-get: not found on PATH"):
        Apt(tmp_path / "apt")


@pytest.fixture(params=["dpkg-deb", "without it"])
def either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages are unpacked by Debian's program, or where it is not, here."""
    if request.param == "without it":
        monkeypatch.setattr(debian.shutil, "which", lambda name: None)
    elif not shutil.which("dpkg-deb"):
        pytest.skip("this machine has no dpkg")


def tar(members: Sequence[tarfile.TarInfo | tuple[str, bytes]]) -> bytes:
    """A tar archive, gzipped, of files and of other members."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return out.getvalue()


def deb(path: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    """A Debian package that holds these."""
    control = "Package: a\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: a\n"
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": tar([("control", control.encode())]),
        "data.tar.gz": tar(members),
    }
    data = b"!<arch>\n"
    for name, contents in parts.items():
        head = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(contents):<10}`\n"
        data += head.encode() + contents + b"\n" * (len(contents) % 2)
    path.write_bytes(data)
    return path


def other(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    """A member that is no file."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.usefixtures("either_way")
def test_packages_are_put_together(tmp_path: Path) -> None:
    """Directories of several packages become one; links inside of the tree are followed."""
    first = deb(
        tmp_path / "a.deb", ("./usr/lib/a.so", b"a"), other("./lib", tarfile.SYMTYPE, "usr/lib")
    )
    second = deb(tmp_path / "b.deb", ("./usr/lib/b.so", b"b"), ("./lib/c.so", b"c"))
    unpack([first, second], tmp_path / "out")
    lib = tmp_path / "out/usr/lib"
    assert {p.name: p.read_bytes() for p in lib.iterdir()} == {
        "a.so": b"a",
        "b.so": b"b",
        "c.so": b"c",
    }
    assert os.readlink(tmp_path / "out/lib") == "usr/lib"
    assert not first.exists()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["lib", "usr"]


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("link", ["../elsewhere", "{tmp}/elsewhere"])
def test_a_link_of_another_package_leads_nowhere(tmp_path: Path, link: str) -> None:
    """One package brings a link that leads out, the other a file that would go through it."""
    (tmp_path / "elsewhere").mkdir()
    target = link.format(tmp=tmp_path)
    first = deb(tmp_path / "a.deb", other("./etc", tarfile.SYMTYPE, target))
    second = deb(tmp_path / "b.deb", ("./etc/passwd", b"root"))
    with pytest.raises(ActionableError) as caught:
        unpack([first, second], tmp_path / "out")
    assert caught.value.reason == (
        f"b.deb: etc: got a path through a link to {tmp_path}/elsewhere, expected files, links and "
        "directories in the tree"
    )
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("name", ["../evil", "./a/../../evil", "/{tmp}/evil"])
def test_paths_that_leave(tmp_path: Path, name: str) -> None:
    """They are refused, or lose what would lead them out."""
    archive = deb(tmp_path / "a.deb", (name.format(tmp=tmp_path), b"evil"))
    try:
        unpack([archive], tmp_path / "out")
    except ActionableError as error:
        assert "a.deb" in error.reason
    assert not (tmp_path / "evil").exists()


@pytest.mark.usefixtures("either_way")
def test_a_link_and_a_file_through_it_in_one_package(tmp_path: Path) -> None:
    """dpkg's own tar makes links last, so that nothing goes through them."""
    (tmp_path / "elsewhere").mkdir()
    link = other("./d", tarfile.SYMTYPE, str(tmp_path / "elsewhere"))
    archive = deb(tmp_path / "a.deb", link, ("./d/evil", b"evil"))
    try:
        unpack([archive], tmp_path / "out")
    except ActionableError as error:
        assert "a.deb" in error.reason
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_pipes_are_refused(tmp_path: Path) -> None:
    """Neither pipes nor what else is no file."""
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "in/pipe")
    with pytest.raises(ActionableError, match=r"a\.deb: pipe: got a device, a pipe or a socket"):
        merge(tmp_path / "in", tmp_path / "out", "a.deb")


@pytest.mark.parametrize("file_first", [True, False])
def test_a_file_in_the_place_of_a_directory(tmp_path: Path, file_first: bool) -> None:
    """Two packages disagree."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
    file, directory = ("one", "two") if file_first else ("two", "one")
    (tmp_path / file / "x").write_text("file")
    (tmp_path / directory / "x").mkdir()
    merge(tmp_path / "one", tmp_path / "out", "one.deb")
    with pytest.raises(ActionableError, match=r"two\.deb: x: got a (file|directory) where a "):
        merge(tmp_path / "two", tmp_path / "out", "two.deb")


@pytest.mark.usefixtures("either_way")
def test_a_damaged_package_is_named(tmp_path: Path) -> None:
    """Half of one."""
    archive = deb(tmp_path / "a.deb", ("./a", b"a" * 999))
    archive.write_bytes(archive.read_bytes()[:-60])
    with pytest.raises(ActionableError, match=r"a\.deb: damaged package:"):
        unpack([archive], tmp_path / "out")
