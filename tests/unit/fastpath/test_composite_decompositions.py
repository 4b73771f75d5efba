"""Composed operators: the same ones with the same kernels, and what was there before comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from etfast import composite_decompositions, path
from executorch.exir import EdgeCompileConfig, to_edge  # noqa: F401  registers operators
from torch._export import utils
from torch._subclasses import FakeTensorMode, fake_impls
from torch.export import exported_program

OVERRIDE = exported_program._override_composite_implicit_decomp


@contextlib.contextmanager
def installed() -> Iterator[None]:
    with path.installed(path.units(["composite_decompositions"])) as used:
        assert used.active == ["composite_decompositions"]
        yield


def found() -> set[Any]:
    return exported_program._collect_all_valid_cia_ops()


def test_the_operators_that_upstream_finds() -> None:
    """Those that libraries register later, in C++'s tables or in Python's, too."""
    before = found()
    with installed():
        assert found() == before and len(before) > 400
        with torch.library._scoped_library("composed", "DEF") as library:
            library.define("twice(Tensor x) -> Tensor")
            library.impl("twice", lambda x: x * 2, "CompositeImplicitAutograd")
            library.define("thrice(Tensor x) -> Tensor")
            library.impl("thrice", lambda x: x * 3, "CPU")
            thrice = torch.ops.composed.thrice.default
            more = found()
            assert more == utils._collect_all_valid_cia_ops()
            assert {str(op) for op in more - before} == {"composed.twice.default"}
            thrice.py_kernels[composite_decompositions._KEY] = lambda x: x * 3
            assert found() - more == {thrice}


def described(op: Any) -> Any:
    """An operator's kernels, as far as they can be compared, and its rule for fake tensors."""
    kernels = {
        key: kernel
        if kernel is utils._special_op_to_preserve_cia or isinstance(kernel, torch._C.DispatchKey)
        else getattr(kernel, "func", kernel).__qualname__
        for key, kernel in op.py_kernels.items()
    }
    rule = fake_impls.op_implementations_dict.get(op)
    return kernels, rule and sorted(rule.keywords) if hasattr(rule, "keywords") else rule


@pytest.mark.parametrize("table", [{}, None], ids=["none", "default"])
def test_the_kernels_that_upstream_gives(table: Any) -> None:
    decompositions = table if table is not None else torch.export.default_decompositions()
    ops, _ = exported_program._split_decomp_table_to_cia_and_python_decomp(dict(decompositions))
    kernels = {op: dict(op.py_kernels) for op in ops}
    with OVERRIDE(ops):
        # The first one of a process takes torch's own rules for fake tensors away, for good.
        pass
    with OVERRIDE(ops):
        upstream = {op: described(op) for op in ops}
    with installed(), exported_program._override_composite_implicit_decomp(ops):
        assert {op: described(op) for op in ops} == upstream
        for op, decomposition in ops.items():
            assert op.py_kernels[composite_decompositions._KEY] is decomposition
    assert {op: dict(op.py_kernels) for op in ops} == kernels
    assert not any(op in fake_impls.op_implementations_dict for op in ops)


def test_an_operator_that_is_kept_still_runs() -> None:
    """On tensors and on fake ones, by what it is composed of."""
    linear = torch.ops.aten.linear.default
    x, weight = torch.randn(2, 4), torch.randn(3, 4)
    expected = linear(x, weight)
    with installed():
        ops, _ = exported_program._split_decomp_table_to_cia_and_python_decomp({})
        assert ops[linear] is utils._special_op_to_preserve_cia
        with exported_program._override_composite_implicit_decomp(ops), torch.no_grad():
            assert torch.equal(linear(x, weight), expected)
            with FakeTensorMode() as mode:
                fake = linear(mode.from_tensor(x), mode.from_tensor(weight))
            assert fake.shape == expected.shape
    assert torch.equal(linear(x, weight), expected)
