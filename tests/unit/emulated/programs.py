"""Small programs of a backend and of operators that no runtime has."""

from __future__ import annotations

from pathlib import Path

import torch
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data

BACKEND = "EmulatedTestBackend"
PAYLOAD = b"the payload"
SPECS = {"chip": b"n1", "empty": b""}
DATA = {"weights": b"\0\1named"}


class EmulatedTestBackend(BackendDetails):
    """Compiles any graph to the same payload."""

    @staticmethod
    def preprocess(edge_program, compile_specs):  # type: ignore[no-untyped-def]
        store = NamedDataStore()
        for key, data in DATA.items():
            store.add_named_data(key, data)
        return PreprocessResult(PAYLOAD, data_store_output=store.get_named_data_store_output())


class _All(Partitioner):
    """Gives the backend all calls."""

    def partition(self, exported_program):  # type: ignore[no-untyped-def]
        specs = [CompileSpec(key, value) for key, value in SPECS.items()]
        for node in exported_program.graph.nodes:
            if node.op == "call_function":
                node.meta["delegation_tag"] = "all"
        tag_constant_data(exported_program)
        return PartitionResult(exported_program, {"all": DelegationSpec(BACKEND, specs)})


def delegated(path: Path, module: torch.nn.Module, inputs: tuple, dynamic=None) -> Path:  # type: ignore[no-untyped-def,type-arg]
    """Writes a program whose only method is the backend's."""
    exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
    edge = to_edge_transform_and_lower(exported, partitioner=[_All()])
    path.write_bytes(edge.to_executorch().buffer)
    return path


def with_operators(path: Path, module: torch.nn.Module, inputs: tuple, dynamic=None) -> Path:  # type: ignore[no-untyped-def,type-arg]
    """Writes a program that calls operators, without a delegate."""
    exported = torch.export.export(module, inputs, dynamic_shapes=dynamic)
    # The edge dialect's check knows no large unsigned integers.
    config = EdgeCompileConfig(_check_ir_validity=False)
    path.write_bytes(to_edge(exported, compile_config=config).to_executorch().buffer)
    return path


def define(name: str, arguments: str, returns: str, function, fake) -> None:  # type: ignore[no-untyped-def]
    """Defines an operator of the namespace `emutest`, with its variant for given outputs."""
    torch.library.define(f"emutest::{name}", f"({arguments}) -> {returns}")
    torch.library.impl(f"emutest::{name}", "CompositeExplicitAutograd", function)
    torch.library.register_fake(f"emutest::{name}", fake)
    count = returns.count("Tensor")
    outs = [f"Tensor({'abcd'[i]}!) out{i if count > 1 else ''}" for i in range(count)]
    given = ", ".join(f"Tensor({'abcd'[i]}!)" for i in range(count))
    torch.library.define(
        f"emutest::{name}.out",
        f"({arguments}, *, {', '.join(outs)}) -> {f'({given})' if count > 1 else given}",
    )
