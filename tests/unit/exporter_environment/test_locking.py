"""Writing locks: which platforms, which hashes."""

from __future__ import annotations

import tomllib

import pytest
from helpers import LOCKS
from install import locks
from install.locks import Requirement
from lock import locking

OFFERS_CPU = """\
torch (2.15.0)
Available versions: 2.15.0, 2.14.1, 2.13.0+cpu, 2.13.0, 2.12.1+cpu
WARNING: pip index is currently an experimental command.
"""
OFFERS_CUDA = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.13.0, 2.12.1+cpu\n"
OFFERS_OTHERS = "torch (2.15.0)\nAvailable versions: 2.15.0\n"
NOTHING = "ERROR: No matching distribution found for torch\n"
INDEX = "https://cpu.example/whl"

A = frozenset({"a" * 64})


def test_narrow() -> None:
    """Other platforms and Pythons go; what stays has a marker only where it needs one."""
    found = locking.narrow(
        [
            Requirement("numpy", "2.4", "python_full_version < '3.12'", A),
            Requirement("numpy", "2.5", "python_full_version >= '3.12'", A),
            Requirement("colorama", "1", "sys_platform == 'win32'", A),
            Requirement("core", "1", "platform_machine == 'x86_64' or sys_platform == 'darwin'", A),
        ]
    )
    assert [(r.name, r.version) for r in found] == [("core", "1"), ("numpy", "2.4")]
    assert found[1].marker == ""
    assert "aarch64" not in found[0].marker
    again = locking.narrow(locks.parse(locking.render("x.in", found), "x.txt"))
    assert again == found


def test_candidate() -> None:
    """A report's file counts unless it wants CUDA."""

    def report(*needs: str) -> dict[str, object]:
        archive = {"archive_info": {"hashes": {"sha256": "f" * 64}}}
        return {"install": [{"download_info": archive, "metadata": {"requires_dist": [*needs]}}]}

    linux, _, mac = locking.TARGETS
    cuda = report("filelock", "nvidia-cudnn-cu13==9; platform_system == 'Linux'")
    assert locking.candidate_hash(report("filelock", "sympy>=1.13"), linux) == "f" * 64
    assert locking.candidate_hash(cuda, linux) is None
    assert locking.candidate_hash(cuda, mac) == "f" * 64


def test_what_an_input_names_is_not_left_out() -> None:
    wanted = "# semver\npytest\nJsonSchema[format]>=4\n"
    assert locking.exclusions(["jsonschema", "semver", "kgb"], wanted) == [
        'semver ; python_version < "0"',
        'kgb ; python_version < "0"',
    ]


def test_inputs() -> None:
    """Each lock has its input; what is recorded of torch is what the lock holds."""
    assert {p.stem for p in LOCKS.glob("*.in")} == {p.stem for p in LOCKS.glob("*.txt")}
    settings = tomllib.loads((LOCKS / "locking.toml").read_text())
    assert all(settings["exclude"].values())
    path = LOCKS / "exporter_cp311.txt"
    torch = next(r for r in locks.parse(path.read_text(), path) if r.name == "torch")
    recorded = settings["cpu_only"]["torch"][torch.version]
    assert set(recorded) == {target.name for target in locking.TARGETS}
    assert torch.hashes == frozenset(recorded.values())


@pytest.mark.parametrize(
    ("answer", "platform", "index", "options"),
    [
        # A CPU build is there: an additional index that may not be reached is never asked.
        (OFFERS_CPU, "linux", INDEX, ()),
        (OFFERS_CPU, "linux", "", ()),
        # The registry's build for Linux is a CUDA build.
        (OFFERS_CUDA, "linux", INDEX, ("--index-url", INDEX)),
        (OFFERS_CUDA, "linux", "", None),
        # Its build for macOS is what is expected.
        (OFFERS_CUDA, "darwin", INDEX, ()),
        # Not there at all, or pip could not tell.
        (OFFERS_OTHERS, "darwin", INDEX, ("--index-url", INDEX)),
        (OFFERS_OTHERS, "linux", INDEX, ("--index-url", INDEX)),
        (NOTHING, "linux", INDEX, ("--index-url", INDEX)),
    ],
)
def test_torch_options(
    answer: str, platform: str, index: str, options: tuple[str, ...] | None
) -> None:
    """The index of CPU builds is used where pip's own settings have none, and only there."""
    assert locking.torch_options("2.13.0", answer, platform, index) == options


def test_local_version_in_the_lock() -> None:
    """A lock may name the CPU build itself."""
    offers = "Available versions: 2.13.0+cpu\n"
    assert locking.torch_options("2.13.0+cpu", offers, "linux", INDEX) == ()
    assert locking.torch_options("2.13.0+cpu", OFFERS_CUDA, "linux", INDEX)
