"""A model whose weights are not needed any more, until something asks for its outputs after all.

What quantizes a model works on a copy of its layers. From then on the float weights serve only the
comparison with the eager model, and a forked child that compares has them already (`ForkedTask`).
They are most of a lowering's memory, so the parent drops them. Two rare cases need the model again:
the child failed, or a failed lowering asks whether the model itself runs. Then it is loaded once
more.

The invariant: an entry point gives the same model each time. Programs depend on that anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from etbuild import Method, ModelSpec

from etlower.eager import eager, with_own_state


class Unloaded(torch.nn.Module):
    """Runs a method's module, which is loaded when it runs first.

    Args:
      load: returns the module, or an exported program.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        super().__init__()
        self._load = load

    def forward(self, *inputs: Any) -> Any:
        """Runs the module on these inputs; its state stays as it was loaded."""
        return with_own_state(eager(self._load()))(*inputs)


def unload(spec: ModelSpec, load: Callable[[], ModelSpec]) -> None:
    """Drops a model's modules, in place, from all that hold its methods.

    Args:
      spec: the model; its `methods` are a dict.
      load: makes it again; called at most once.

    Example:

        unload(spec, lambda: load_spec(request))
    """
    loaded = functools.cache(load)
    methods: Any = spec.methods
    for name, method in spec.methods.items():
        methods[name] = _without_module(name, method, loaded)


def _without_module(name: str, method: Method, loaded: Callable[[], ModelSpec]) -> Method:
    return replace(method, module=Unloaded(lambda: loaded().methods[name].module))
