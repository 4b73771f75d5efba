"""Takes common arguments into a trace as they are, without asking what else they may be.

Replaces `create_arg` of the tracers of torch and of ExecuTorch's passes, in front of which it looks
at the type. There each number in a list goes through four functions, which ask whether it is a
module, a parameter, a tensor, an opaque object, a dataclass and a dozen other things.

Why it is equivalent: for these very types, not for subclasses of them, each of those functions
gives the argument to the next one, and the last returns it, or a node for a proxy, or a list of
what is made of the items.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from etlower.replacing import replaced
from torch.fx import Proxy

from etfast.known_results import PLAIN
from etfast.unit import Unit


def looking_first(upstream: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A tracer's `create_arg` that asks upstream's for the less common types alone."""

    def create_arg(self: Any, a: Any) -> Any:
        kind = type(a)
        if kind is Proxy:
            return a.node
        if kind in PLAIN:
            return a
        if kind is list:
            return [self.create_arg(item) for item in a]
        if kind is tuple:
            return tuple([self.create_arg(item) for item in a])
        return upstream(self, a)

    return create_arg


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.exir import pass_base
    from torch._export import pass_base as older
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer

    tracers = (
        PythonKeyTracer,
        older._ExportPassBaseDeprecatedDoNotUse.ExportTracer,
        pass_base._ExportPassBase.ExportTracer,
        pass_base.ExportPass.ExportTracer,
    )
    return replaced(
        *((tracer, "create_arg", looking_first(vars(tracer)["create_arg"])) for tracer in tracers)
    )


UNIT = Unit(
    name="create_arg",
    relies_on={
        "torch.fx.proxy": {
            "TracerBase.create_arg": "eec436601a27887a",
        },
        "torch.fx._symbolic_trace": {
            "Tracer.create_arg": "433a92814bdbb004",
        },
        "torch.fx.experimental.proxy_tensor": {
            "PythonKeyTracer.create_arg": "bde2a3d37f7cdfa2",
        },
        "torch._export.pass_base": {
            "_ExportPassBaseDeprecatedDoNotUse.ExportTracer.create_arg": "f4ac63f94ff224fa",
        },
        "executorch.exir.pass_base": {
            "_ExportPassBase.ExportTracer.create_arg": "e6e164d8b63fb1db",
            "ExportPass.ExportTracer.create_arg": "e62a74465159fb27",
        },
    },
    install=_install,
)
