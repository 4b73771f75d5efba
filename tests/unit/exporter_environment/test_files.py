"""Files that Bazel downloads: which, that they are taken, and how locks name their URLs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers import MakeWheel, entry, sha256
from install import files, locks, packages
from install.locks import Requirement
from install.packages import Origin
from lock import locking
from lock.pip_tool import Pip

ORDER = {("cp311", "cp311", "manylinux_2_28_x86_64"): 0, ("py3", "none", "any"): 1}
URL = "https://wheels.example/"


def test_files_of_this_machine() -> None:
    """The best tag goes first; files of other machines, sources and unknown ones are left out."""
    names = {
        "a" * 64: "demo-1.0-py3-none-any.whl",
        "b" * 64: "demo-1.0%2Bcpu-cp311-cp311-manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl",
        "c" * 64: "demo-1.0-cp311-cp311-macosx_14_0_arm64.whl",
        "d" * 64: "other-1.0.tar.gz",
        "e" * 64: "third-1.0-py3-none-any.whl",
    }
    urls = {sha256: [URL + name, "http://mirror/x"] for sha256, name in names.items()}
    requirements = [
        Requirement("demo", "1.0", "", frozenset({"a" * 64, "b" * 64, "c" * 64})),
        Requirement("other", "1.0", "", frozenset({"d" * 64})),
        Requirement("unknown", "1.0", "", frozenset({"f" * 64})),
    ]
    name = "demo-1.0+cpu-cp311-cp311-manylinux_2_17_x86_64.manylinux_2_28_x86_64.whl"
    assert files.wanted(requirements, urls, ORDER) == {"b" * 64: name}
    assert files.wanted(requirements[:1], {"c" * 64: urls["c" * 64]}, ORDER) == {}


def test_downloaded_files_are_installed(
    origin: Origin, make_wheel: MakeWheel, tmp_path: Path
) -> None:
    """The settings lead nowhere; no index of torch is asked."""
    requirements = {}
    for stem in ("torch-2.13.0+cpu", "demo-1.0"):
        wheel = make_wheel(stem, {f"{stem.partition('-')[0]}.py": b""})
        for requirement in locks.parse(entry(wheel), "lock.txt"):
            requirements[requirement.name] = requirement
        folder = tmp_path / "files" / sha256(wheel)
        folder.mkdir(parents=True)
        wheel.rename(folder / wheel.name)
    offline = replace(origin, files=files.downloaded(tmp_path / "files"))
    installed = packages.install(offline, requirements, "https://cpu.invalid", tmp_path / "out")
    assert installed.versions == {"demo": "1.0", "torch": "2.13.0+cpu"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"{URL}a.whl", f"{URL}a.whl"),
        ("https://me:secret@wheels.example:8080/a.whl#x", "https://wheels.example:8080/a.whl"),
        (f"{URL}a.whl?signature=secret", None),
        ("file:///opt/wheels/a.whl", None),
    ],
)
def test_urls_that_are_written(url: str, expected: str | None) -> None:
    """Neither passwords nor signatures nor paths of this machine."""
    assert locking.public_url(url) == expected


def test_urls_of_a_report_in_a_lock() -> None:
    """They are comments: the entries of the lock are the same, and pip reads it."""

    def found(url: str, sha256: str) -> dict[str, object]:
        return {"download_info": {"url": url, "archive_info": {"hashes": {"sha256": sha256}}}}

    entries = [
        found(URL + "demo-1.0-py3-none-any.whl", "a" * 64),
        found("file:///other.whl", "b" * 64),
    ]
    urls = locking.report_urls({"install": entries})
    requirements = [
        Requirement("demo", "1.0", "", frozenset({"a" * 64, "c" * 64})),
        Requirement("other", "1.0", "", frozenset({"b" * 64})),
    ]
    text = locking.render("x.in", requirements, urls)
    url = f"# file: {URL}demo-1.0-py3-none-any.whl#sha256={'a' * 64}\n"
    assert text.count("# file: ") == 1
    assert f"    --hash=sha256:{'c' * 64}\n{url}other==1.0" in text
    assert locks.parse(text, "x.txt") == requirements


def test_urls_that_pip_finds(pip: Pip, make_wheel: MakeWheel) -> None:
    """pip is asked for every platform; a folder of this machine gives no URL."""
    wheel = make_wheel("demo-1.0", {})
    assert locking._found_urls(locks.parse(entry(wheel), "lock.txt"), pip) == {}
