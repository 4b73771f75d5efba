"""Writing locks: which platforms, which hashes."""

from __future__ import annotations

import tomllib

from helpers import LOCKS
from install import locks
from install.locks import Requirement
from lock import locking

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
