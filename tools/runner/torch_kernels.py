"""Kernels that torch computes, for programs with operators that have an implementation there.

Vendors of CPUs and DSPs write such references of their kernels in Python. An emulator imports them
and names their namespace:

    from runner import torch_kernels

    def install():
        torch_kernels.use_exporter()
        import our_dsp.references
        torch_kernels.register_namespace("our_dsp")

Importing torch takes seconds, which other programs' tests do without.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from etlink import process
from runner import emulated

if TYPE_CHECKING:
    import torch


def use_exporter() -> None:
    """Makes all of ExecuTorch's packages importable, in place of the small folder without torch."""
    # A process that lowers has them already.
    if os.environ.get(process.ROOTS) and "executorch.exir" not in sys.modules:
        for name in [name for name in sys.modules if name.partition(".")[0] == "executorch"]:
            del sys.modules[name]
        sys.path[:] = process.paths(torch=True)
    warnings.filterwarnings("ignore", module=r"torch\.|executorch\.|copyreg")
    # Arrays of the runtime are read-only, and references write to none.
    warnings.filterwarnings("ignore", message=".*not writable")


def register_namespace(
    namespace: str, converters: Mapping[str, Callable[[Any], Any]] | None = None
) -> None:
    """Registers a kernel for each operator of a namespace that torch has an implementation of.

    Args:
      namespace: "our_dsp". Of an operator's variants with given outputs (`add.out`), the one
        without them is called.
      converters: by an argument's name: what changes its values for the implementation.
    """
    import torch

    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if name.startswith(namespace + "::") and name.endswith("out"):
            _register(name, converters or {})


def _register(name: str, converters: Mapping[str, Callable[[Any], Any]]) -> None:
    """Registers a kernel for one operator, if torch has an implementation of it."""
    import torch

    operator, _, overload = name.partition(".")
    functional = overload.removesuffix("out").removesuffix("_")
    qualified = f"{operator}.{functional}" if functional else operator
    keys = ("CPU", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    try:
        schema = torch._C._get_schema(operator, functional)
        if not any(has(qualified, key) for key in keys):
            return
    except RuntimeError:
        return
    library, _, base = operator.partition("::")
    packet = getattr(getattr(torch.ops, library), base)
    call = getattr(packet, functional or "default")
    emulated.register_kernel(name, _kernel(call, schema, converters), len(schema.returns))


def _kernel(
    call: Callable[..., Any], schema: Any, converters: Mapping[str, Callable[[Any], Any]]
) -> Callable[..., Any]:
    names = [argument.name for argument in schema.arguments]
    keyword_only = [argument.name for argument in schema.arguments if argument.kwarg_only]
    count = len(schema.arguments) - len(keyword_only)

    def kernel(*values: Any) -> Any:
        given = [_to_torch(value) for value in values]
        for index, name in enumerate(names):
            if name in converters:
                given[index] = converters[name](given[index])
        named = dict(zip(keyword_only, given[count:], strict=True))
        got = call(*given[:count], **named)
        return _to_numpy(got) if len(schema.returns) == 1 else [_to_numpy(part) for part in got]

    return kernel


def _to_torch(value: Any) -> Any:
    import torch

    if isinstance(value, np.ndarray):
        tensor = torch.from_numpy(value)
        return tensor.view(torch.bfloat16) if emulated.is_bfloat16(value) else tensor
    return [_to_torch(item) for item in value] if isinstance(value, list) else value


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    import torch

    tensor = tensor.detach()
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()
