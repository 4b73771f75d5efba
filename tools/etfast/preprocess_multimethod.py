"""Makes XNNPACK's payloads of half of a program's partitions on a second core.

Replaces `XnnpackBackend.preprocess_multimethod`, which upstream's class inherits: a loop over the
partitions of all methods.

Why it is equivalent: `preprocess` makes a payload out of one partition's program, which is a copy
made for it, and nothing that one call leaves behind is read by another. The results are in
upstream's order.
"""

from __future__ import annotations

import contextlib
from typing import Any

from etlower.forked import ForkedTask
from etlower.replacing import replaced

from etfast.unit import Unit

# Below this many nodes a fork of a process with its imports costs more than it saves.
_WORTH = 500


def _install() -> contextlib.AbstractContextManager[None]:
    from executorch.backends.xnnpack.xnnpack_preprocess import XnnpackBackend
    from executorch.exir.backend.backend_details import BackendDetails

    upstream = BackendDetails.preprocess_multimethod.__func__

    def preprocess_multimethod(cls: Any, edge_programs: Any, compile_specs: Any) -> Any:
        jobs = [
            (name, program, specs)
            for name, programs in edge_programs.items()
            for program, specs in zip(programs, compile_specs[name], strict=True)
        ]
        kept = _first_half([len(program.graph.nodes) for _, program, _ in jobs])
        if kept == len(jobs):
            return upstream(cls, edge_programs, compile_specs)

        def preprocessed(some: Any) -> list[Any]:
            return [cls.preprocess(program, specs) for _, program, specs in some]

        with ForkedTask(lambda: preprocessed(jobs[kept:])) as second_half:
            results = preprocessed(jobs[:kept]) + second_half.result()
        by_method: dict[str, list[Any]] = {name: [] for name in edge_programs}
        for (name, _, _), result in zip(jobs, results, strict=True):
            by_method[name].append(result)
        return by_method

    return replaced((XnnpackBackend, "preprocess_multimethod", classmethod(preprocess_multimethod)))


def _first_half(sizes: list[int]) -> int:
    """Counts the jobs that are half of the work; all, if it is too little to share."""
    if sum(sizes) < _WORTH:
        return len(sizes)
    done = 0
    for number, size in enumerate(sizes):
        if 2 * done >= sum(sizes):
            return number
        done += size
    return len(sizes)


UNIT = Unit(
    name="preprocess_multimethod",
    relies_on={
        "executorch.exir.backend.backend_details": {
            "BackendDetails.preprocess_multimethod": "4a833eb94738",
        },
        "executorch.backends.xnnpack.xnnpack_preprocess": {
            "XnnpackBackend": "ee6c8df59980",
        },
    },
    install=_install,
    needs=("executorch.backends.xnnpack.xnnpack_preprocess",),
)
