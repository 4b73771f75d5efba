"""Reading and merging of locks, and the checked-in ones."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from helpers import BACKENDS, LINUX, LOCKS
from install import locks
from install.errors import InstallError

A, B = "a" * 64, "b" * 64


def test_parse() -> None:
    """Continuations, comments, extras, markers and several hashes."""
    text = (
        "# a comment\n"
        "Some_Package[extra]==1.2 ; sys_platform == 'linux' \\\n"
        f"    --hash=sha256:{A} \\\n"
        f"    --hash=sha256:{B}\n"
        "    # via something\n"
        f"other==2.0+cpu --hash=sha256:{A}  # why\n"
    )
    first, second = locks.parse(text, "lock.txt")
    assert first == locks.Requirement(
        "some-package", "1.2", "sys_platform == 'linux'", frozenset({A, B})
    )
    assert (second.name, second.version, second.marker) == ("other", "2.0+cpu", "")


def test_line_is_read_back() -> None:
    """A line that is written for pip is read back as it was."""
    requirement = locks.Requirement("a", "1", "sys_platform == 'linux'", frozenset({A, B}))
    assert locks.parse(requirement.line(), "x") == [requirement]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("--index-url https://example.org/simple", "index URLs belong to pip's own configuration"),
        ("--extra-index-url=https://example.org", "expected `name==version"),
        ("a>=1", "expected `name==version"),
        ("a @ https://example.org/a.whl", "expected `name==version"),
        ("-r other.txt", "expected `name==version"),
        ("a==1", "at least one `--hash=sha256:"),
        ("a==1 --hash=md5:aaaa", "at least one `--hash=sha256:"),
        (f"a==1 --hash=sha256:{A} --no-binary=a", "got 'a==1 --hash=sha256:"),
        (f"a==1 ; nobody == 'x' --hash=sha256:{A}", "`name==version [; marker]`"),
        (f"a==1 ; __import__('os') --hash=sha256:{A}", "`name==version [; marker]`"),
        (f"a==1 ; sys_platform == --hash=sha256:{A}", "`name==version [; marker]`"),
        (f"a==1 b --hash=sha256:{A}", "expected `name==version"),
    ],
)
def test_refused(line: str, says: str) -> None:
    """Anything but pinned and hashed packages, with the place in the message."""
    with pytest.raises(InstallError) as caught:
        locks.parse(f"# head\n{line}\n", "lock.txt")
    assert says in str(caught.value)
    assert str(caught.value).startswith("lock.txt:2: malformed entry: got ")


def test_merge(tmp_path: Path) -> None:
    """Locks add up; what a marker leaves out doesn't count."""
    first, second = tmp_path / "1.txt", tmp_path / "2.txt"
    first.write_text(
        f"a==1 --hash=sha256:{A}\nmac==1 ; sys_platform == 'darwin' --hash=sha256:{A}\n"
    )
    second.write_text(f"b==2 --hash=sha256:{B}\nA==1 --hash=sha256:{B}\n")
    merged = locks.load([first, second], LINUX)
    assert list(merged) == ["a", "b"]
    assert merged["a"].hashes == {A, B}


def test_conflict(tmp_path: Path) -> None:
    """Two versions of a package: both locks and both versions are named."""
    first, second = tmp_path / "1.txt", tmp_path / "2.txt"
    first.write_text(f"a==1 --hash=sha256:{A}\n")
    second.write_text(f"a==2 --hash=sha256:{B}\n")
    with pytest.raises(InstallError, match="a is in two versions") as caught:
        locks.load([first, second], LINUX)
    assert str(caught.value).startswith(f"{second}: ")
    assert "got 2, expected 1" in str(caught.value)


def test_nothing_for_this_machine(tmp_path: Path) -> None:
    """A lock for other platforms only."""
    lock = tmp_path / "1.txt"
    lock.write_text(f"a==1 ; sys_platform == 'darwin' --hash=sha256:{A}\n")
    with pytest.raises(InstallError, match="no package for this machine") as caught:
        locks.load([lock], LINUX)
    assert str(caught.value).startswith(f"{lock}: ")


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda path: path.name)
def test_checked_in(lock: Path) -> None:
    """Our locks can be read, and name neither hosts nor CUDA packages."""
    text = lock.read_text()
    requirements = locks.parse(text, lock)
    assert requirements
    assert "://" not in text
    assert not [r.name for r in requirements if r.name.startswith(("nvidia-", "cuda-", "triton"))]


def test_exporter_lock() -> None:
    """ExecuTorch and torch for all three platforms; torch has one CPU build for each."""
    path = LOCKS / "exporter_cp311.txt"
    for changes in (
        {},
        {"platform_machine": "aarch64"},
        {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
    ):
        found = locks.load([path], LINUX | changes)
        assert {"executorch", "torch", "torchao", "numpy", "gguf", "jinja2"} <= set(found)
        assert ("coremltools" in found) == (changes.get("platform_machine") != "aarch64")
        assert len(found["torch"].hashes) == 3


def test_a_layer_adds_what_the_base_lacks(tmp_path: Path) -> None:
    """Packages of the base stay its own; another version of one is an error."""
    base, layer = tmp_path / "base.txt", tmp_path / "layer.txt"
    base.write_text(f"a==1 --hash=sha256:{A}\n")
    layer.write_text(f"a==1 --hash=sha256:{A}\nb==2 --hash=sha256:{B}\n")
    below = locks.load([base], LINUX)
    assert list(locks.without(locks.load([layer], LINUX), below, "layer.txt")) == ["b"]
    layer.write_text(f"a==2 --hash=sha256:{A}\nb==2 --hash=sha256:{B}\n")
    with pytest.raises(InstallError, match="a differs from the exporter's environment") as caught:
        locks.without(locks.load([layer], LINUX), below, "layer.txt")
    assert str(caught.value).startswith("layer.txt: ")
    assert "got 2, expected 1" in str(caught.value)
    with pytest.raises(InstallError, match="has all packages of this lock"):
        locks.without(below, below, "base.txt")


@pytest.mark.parametrize("lock", sorted(BACKENDS.glob("*/*.txt")), ids=lambda path: path.name)
def test_layers_of_backends(lock: Path) -> None:
    """Their locks fit the exporter's, and add something to it."""
    base = locks.load([LOCKS / "exporter_cp311.txt"], LINUX)
    assert locks.without(locks.load([lock], LINUX), base, lock.name)


def test_there_are_layers() -> None:
    """The files that the test above reads are its inputs."""
    assert {path.name for path in BACKENDS.glob("*/*.txt")} >= {"openvino.txt", "tosa.txt"}


@pytest.mark.parametrize(
    ("marker", "holds"),
    [
        ("", True),
        ("sys_platform == 'darwin' or platform_machine == 'x86_64'", True),
        ("sys_platform == 'linux' and (platform_machine == 'aarch64')", False),
        ("python_full_version < '3.12'", True),
        ("python_version ~= '3.9'", True),
        ("'3.9' < python_version", True),  # As versions, not as text.
        ("extra == 'vgf'", False),
    ],
)
def test_markers(marker: str, holds: bool) -> None:
    """As pip evaluates them, with the values of any machine."""
    assert locks.matches(marker, LINUX) is holds


def test_a_marker_for_this_machine() -> None:
    assert locks.matches(f"sys_platform == '{sys.platform}'")
    assert not locks.matches(f"sys_platform != '{sys.platform}'")
