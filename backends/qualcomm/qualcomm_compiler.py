"""QNN's backends and contexts, and what its compiler refuses.

QNN's backend, which takes 20 ms to start, lives as long as the process. Upstream's own entry point
keeps one (QnnManagerContext); through `ExportSession`, which recipes use, each partitioner and each
partition would start another. Methods go into one context where they share weights, and into
contexts of their own otherwise. Upstream puts all methods into one, and fails where they have
different numbers of partitions.
"""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import qualcomm_reproducible
import qualcomm_results
import torch
from etlower.refusals import Snapshot
from etlower.replacing import replace
from executorch.backends.qualcomm import qnn_preprocess
from executorch.backends.qualcomm.partition import qnn_partitioner
from executorch.backends.qualcomm.utils.qnn_manager_lifecycle import QnnManagerRegistry
from executorch.exir.backend.compile_spec_schema import CompileSpec
from qualcomm_passes import leave_out_passes

# QNN's own backends, by the options that they were started with.
_managers: dict[bytes, Any] = {}

# Of `mallopt`, in malloc.h: what memory is filled with where it is asked for, inverted.
_PERTURB, _ZEROS = -6, 255

# Told of each operator that the compiler refuses, and what it said: the last partitioner is.
refused: Callable[[torch.fx.Node, str], None] | None = None


# What upstream's code raises on operators and types that it does not know.
FAILURES = (
    *(ArithmeticError, AssertionError, AttributeError, IndexError, KeyError),
    *(NotImplementedError, RuntimeError, TypeError, ValueError),
)


@dataclasses.dataclass
class Specs:
    """Upstream's compile specs for a program, once its methods are known.

    Attributes:
      alone: without shared weights.
      shared: with.
      sharing: whether several methods share weights.
      methods: names of the methods that were exported.
    """

    alone: list[CompileSpec]
    shared: list[CompileSpec]
    sharing: bool
    methods: set[str] = dataclasses.field(default_factory=set)

    def note(self, method: str, program: Any) -> Any:
        """Takes note of a method: a pass for `ExportRecipe.aten_transform_passes`."""
        self.methods.add(method)
        return program

    def chosen(self) -> list[CompileSpec]:
        """Returns the specs for the methods noted."""
        several = len(self.methods) > 1
        return self.shared if several and self.sharing else self.alone


def install() -> None:
    """Replaces, for this process, where upstream takes QNN's backends from and makes payloads."""
    if qnn_partitioner.get_current_qnn_manager is manager_of:
        return
    qnn_partitioner.get_current_qnn_manager = manager_of
    qnn_preprocess.get_current_qnn_manager = manager_of
    leave_out_passes()
    clear_memory()
    qualcomm_results.install()
    replace(qnn_preprocess.QnnBackend, "preprocess_multimethod", _preprocess)


def clear_memory() -> None:
    """Has more memory than 1 KiB be zero where it is asked for, for this process.

    The compiler leaves some of what it writes into a payload as it was: addresses, others in each
    build. So it is with normalizations of 16-bit floats.
    """
    libraries = ctypes.CDLL(None)
    # Other libraries of C than GNU's have none.
    if hasattr(libraries, "mallopt"):
        libraries.mallopt(_PERTURB, _ZEROS)


def _preprocess(
    inner: Callable[..., dict[str, list[Any]]],
    edge_programs: Mapping[str, Sequence[Any]],
    compile_specs: Mapping[str, Sequence[Sequence[CompileSpec]]],
) -> dict[str, list[Any]]:
    """Compiles each context by itself, and signs the payloads of all."""
    made: dict[str, list[Any]] = {}
    for names in _contexts(edge_programs, compile_specs):
        made |= _compiled(
            inner,
            {name: edge_programs[name] for name in names},
            {name: compile_specs[name] for name in names},
        )
    results = [result for name in edge_programs for result in made[name]]
    payloads = qualcomm_reproducible.signed([r.processed_bytes for r in results])
    for result, payload in zip(results, payloads, strict=True):
        result.processed_bytes = payload
    return {name: made[name] for name in edge_programs}


def _compiled(
    compiler: Callable[..., dict[str, list[Any]]],
    programs: Mapping[str, Sequence[Any]],
    specs: Mapping[str, Sequence[Sequence[CompileSpec]]],
) -> dict[str, list[Any]]:
    """Compiles the methods of a context.

    Raises:
      LowerAgain, BuildError: QNN refuses an operator.
    """
    before = {name: [Snapshot.of(part) for part in parts] for name, parts in programs.items()}
    try:
        return compiler(programs, specs)
    except FAILURES as error:
        said = str(error).partition("\n")[0].removesuffix(".")
        manager = manager_of(_backend_of(specs), next(iter(specs.values()))[0])

        def compiles(name: str, program: Any, of_part: Sequence[CompileSpec]) -> bool:
            try:
                compiler({name: [program]}, {name: [of_part]})
            except FAILURES:
                # Upstream leaves it as it is.
                manager.DestroyContext()
                return False
            return True

        manager.DestroyContext()
        for name, parts in before.items():
            for part, of_part in zip(parts, specs[name], strict=True):
                node = part.first_refused(lambda p, n=name, s=of_part: compiles(n, p, s))
                if node is not None and refused is not None:
                    refused(node, said)
        raise


def _backend_of(specs: Mapping[str, Sequence[Sequence[CompileSpec]]]) -> Any:
    from executorch.backends.qualcomm.serialization.qc_schema_serialize import flatbuffer_to_option

    [spec] = next(iter(specs.values()))[0]
    return flatbuffer_to_option(spec.value).backend_options.backend_type


def takes_floats(manager: Any) -> bool:
    """Tells whether a chip's HTP takes 16-bit floats.

    Args:
      manager: upstream's QnnManager for the chip.
    """
    import executorch.backends.qualcomm.python.PyQnnManagerAdaptor as adaptor
    import numpy as np

    def tensor(name: str, kind: Any) -> Any:
        return adaptor.TensorWrapper(
            name,
            kind,
            adaptor.Qnn_DataType_t.QNN_DATATYPE_FLOAT_32,
            adaptor.Qnn_QuantizationEncoding_t.QNN_QUANTIZATION_ENCODING_UNDEFINED,
            {},
            2,
            [1, 8],
            [],
            np.array([], dtype=np.float32),
            False,
        )

    kinds = adaptor.Qnn_TensorType_t
    relu = adaptor.PyQnnOpWrapper("probe", "qti.aisw", "Relu")
    relu.AddInputTensors([tensor("probe_in", kinds.QNN_TENSOR_TYPE_APP_WRITE)])
    relu.AddOutputTensors([tensor("probe_out", kinds.QNN_TENSOR_TYPE_APP_READ)])
    return manager.IsNodeSupportedByBackend([relu.GetOpWrapper()])


def _contexts(
    edge_programs: Mapping[str, Sequence[Any]],
    compile_specs: Mapping[str, Sequence[Sequence[CompileSpec]]],
) -> list[list[str]]:
    """Lists the methods that go into contexts together.

    With shared weights those whose n-th partitions are lowered with equal specs, for all n.
    """
    groups: dict[Any, list[str]] = {}
    for name, programs in edge_programs.items():
        specs = tuple(spec.value for of_part in compile_specs[name] for spec in of_part)
        key: Any = (len(programs), specs) if _shares(specs) else name
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def _shares(specs: Sequence[bytes]) -> bool:
    from executorch.backends.qualcomm.serialization.qc_schema_serialize import flatbuffer_to_option

    return bool(specs) and all(
        flatbuffer_to_option(spec).backend_options.htp_options.use_weight_sharing
        for spec in set(specs)
    )


def manager_of(backend_type: Any, compile_specs: Sequence[CompileSpec]) -> Any:
    """QNN's backend for options, which is started once."""
    [option] = [spec.value for spec in compile_specs]
    if option not in _managers:
        _managers[option] = QnnManagerRegistry().get_or_create_qnn_manager(backend_type, option)
    return _managers[option]
