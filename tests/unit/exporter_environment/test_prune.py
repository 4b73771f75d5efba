"""Patterns of prune.toml, and what the checked-in rules keep and leave out."""

from __future__ import annotations

import re
from pathlib import Path

import audit_pruning
import pytest
from install import prune
from install.errors import InstallError


@pytest.mark.parametrize(
    ("pattern", "path", "hit"),
    [
        ("a/*.py", "a/b.py", True),
        ("a/*.py", "a/b/c.py", False),
        ("a/**/*.py", "a/c.py", True),
        ("a/**/*.py", "a/b/b/c.py", True),
        ("a/**", "a/b/c", True),
        ("a/", "a/b/c", True),
        ("a/", "ab/c", False),
        ("**/tests/", "x/y/tests/z.py", True),
        ("**/tests/", "tests/z.py", True),
        ("**/tests/", "x/mytests/z.py", False),
        ("lib{a,b.c}.so", "libb.c.so", True),
        ("lib{a,b.c}.so", "libbxc.so", False),
        ("{a*,b}.so", "abc.so", True),
        ("{a*,b}.so", "bb.so", False),
        ("a?.py", "ab.py", True),
        ("a?.py", "a/.py", False),
        ("a.py", "a.pyi", False),
    ],
)
def test_translate(pattern: str, path: str, hit: bool) -> None:
    """Stars stay inside a component unless doubled; patterns match whole paths."""
    assert bool(re.fullmatch(prune.translate(pattern), path)) is hit


@pytest.mark.parametrize(
    ("path", "stays"),
    [
        ("torch/__init__.py", True),
        ("torch/lib/libtorch_cpu.so", True),
        ("torch/bin/torch_shm_manager", True),
        ("torch/bin/protoc", False),
        ("torch/include/ATen/ATen.h", False),
        ("torch/testing/_internal/common_dtype.py", True),
        ("torch/testing/_internal/distributed/fake_pg.py", True),
        ("torch/testing/_internal/distributed/distributed_test.py", False),
        ("torch/_inductor/codegen/cpp_prefix.h", True),
        ("torchgen/packaged/ATen/native/native_functions.yaml", True),
        ("executorch/lib/libexecutorch.so", True),
        ("executorch/data/bin/flatc", True),
        ("executorch/exir/_serialize/program.fbs", True),
        ("executorch/extension/flat_tensor/serialize/flat_tensor.fbs", True),
        ("executorch/exir/dialects/edge/edge.yaml", True),
        ("executorch/include/executorch/runtime/core/error.h", False),
        ("executorch/exir/tests/common.py", False),
        ("executorch/backends/test/graph_builder.py", True),
        ("executorch/backends/test/harness/tester.py", False),
        ("numpy/testing/__init__.py", True),
        ("numpy/_core/tests/test_dtype.py", False),
        ("torch-2.13.0+cpu.dist-info/METADATA", True),
        ("torch-2.13.0+cpu.dist-info/RECORD", False),
        ("omegaconf-2.4.0.dist-info/entry_points.txt", True),
        ("a/__pycache__/b.cpython-311.pyc", False),
    ],
)
def test_packages(path: str, stays: bool) -> None:
    """Packages that exports need stay; headers, tests and records go."""
    assert prune.load("site-packages").keeps(path) is stays


@pytest.mark.parametrize(
    ("path", "stays"),
    [
        ("os.py", True),
        ("unittest/mock.py", True),
        ("unittest/test/__main__.py", False),
        ("test/test_os.py", False),
        ("lib-dynload/_ssl.cpython-311-x86_64-linux-gnu.so", True),
        ("lib-dynload/_testcapi.cpython-311-x86_64-linux-gnu.so", False),
        ("lib-dynload/_tkinter.cpython-311-x86_64-linux-gnu.so", False),
        ("site-packages/pip/__init__.py", False),
        ("sitecustomize.py", False),
        ("_sysconfigdata__linux_x86_64-linux-gnu.py", True),
    ],
)
def test_standard_library(path: str, stays: bool) -> None:
    """The standard library without tests, windows, terminals and installers."""
    assert prune.load("stdlib").keeps(path) is stays


def test_every_rule_has_a_reason(tmp_path: Path) -> None:
    """A rule without one is refused."""
    rules = tmp_path / "prune.toml"
    rules.write_text('[[site-packages]]\nremove = ["a/"]\n')
    with pytest.raises(InstallError, match="malformed rule"):
        prune.load("site-packages", rules)
    for folder in ("site-packages", "stdlib"):
        assert prune.load(folder).rules


def test_rules_of_one_package() -> None:
    """Folders with common names go where a package is known to have no use for them."""
    pruning = prune.load("site-packages")
    assert not pruning.keeps("runner/run.py", "tosa-tools")
    assert pruning.keeps("runner/run.py", "other")
    assert pruning.keeps("tosa_serializer/__init__.py", "tosa-tools")


def test_audit(tmp_path: Path) -> None:
    """Imports of what is left out are found: absolute and relative ones, on top and inside."""
    files = {
        "a/__init__.py": "from .tests import helper\n",
        "a/b.py": "def f():\n    import a.tests.helper\n\nimport a.c\n",
        "a/c.py": "",
        "a/tests/__init__.py": "",
        "a/tests/helper.py": "",
        "a/template.py": "{{ no python }}",
        "a-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: a\nVersion: 1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "a-1.dist-info/RECORD").write_text("".join(f"{name},,\n" for name in files))
    rules = tmp_path / "prune.toml"
    rules.write_text('[[site-packages]]\nreason = "tests"\nremove = ["**/tests/"]\n')
    assert set(audit_pruning.audit(tmp_path, prune.load("site-packages", rules))) == {
        ("a/__init__.py", 1, "a.tests", True),
        ("a/__init__.py", 1, "a.tests.helper", True),
        ("a/b.py", 2, "a.tests.helper", False),
    }
