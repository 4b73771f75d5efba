"""Keeps from Arm's compilers what they fail on, and what TOSA does not have.

Upstream's checks (ExecuTorch 1.5.1) go by operators. Its passes, and vela and Arm's converter
behind them, fail on some arguments and neighbors. Which operator it is, is found by bisection
(etlower/refusals.py), and the next attempt lowers without it. So is what leaves a graph of TOSA
without an input, or with other results than the program's: some passes drop slices, or hand out 32
bits for 64. TOSA has no empty tensors: its reference model ends the process.

Passes of the quantizer fail on places of maxima and on constants that are scaled; `install` has the
former left alone, and the latter taken. Another one joins equal calls whose results have different
scales, of which all then had the first one's, and one leaves out a ReLU before a scale that reaches
below zero.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

import arm_results
import arm_tables
import torch
import vgf_results
from etbuild import BuildError, LowerAgain
from etlower import exchanged, kernels, operators
from etlower.refusals import Refusals, Snapshot
from etlower.replacing import replace, replaced
from executorch.backends.arm._passes import (
    AccumulateIndexPutPass,
    ConvertMinMaxPass,
    DecomposeSqrtPass,
    FuseQuantizedActivationPass,
)
from executorch.backends.arm._passes.quant_args import QuantArgs
from executorch.backends.arm.constants import DISALLOW_TFA_META_KEY
from executorch.backends.arm.ethosu.backend import EthosUBackend
from executorch.backends.arm.operator_support.tosa_supported_operators import (
    SupportedTOSAOperatorCheck,
)
from executorch.backends.arm.tosa import partitioner as tosa_partitioner
from executorch.backends.arm.tosa.backend import TOSABackend
from executorch.backends.arm.vgf.backend import VgfBackend
from executorch.backends.arm.vgf.model_converter import find_model_converter_binary
from executorch.backends.transforms.fuse_duplicate_users_pass import FuseDuplicateUsersPass
from executorch.backends.transforms.replace_scalar_with_tensor import (
    ReplaceScalarWithTensorArgPass,
)
from executorch.exir.dialects._ops import ops
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from executorch.exir.pass_base import ExportPass
from torch.export.graph_signature import InputKind
from torch.fx.passes.operator_support import OperatorSupportBase, any_chain, chain
from tosa import TosaGraph
from tosa.DType import DType

# The last partitioner's.
_refused = Refusals()


class Taken(OperatorSupportBase):
    """A check beside those of upstream's partitioner.

    Args:
      has_integers: whether the profile of TOSA has operators of whole numbers.
    """

    def __init__(self, has_integers: bool = True) -> None:
        self._refused = Refusals()
        self._has_integers = has_integers

    def is_node_supported(
        self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node
    ) -> bool:
        """As upstream's."""
        global _refused
        _refused = self._refused
        if self._refused.has(node) or operators.is_empty(node):
            return False
        if any(map(operators.is_whole, operators.values(node))) and (
            operators.packet(node) in _ROUNDING or not (self._has_integers or _computes(node))
        ):
            return False
        if operators.packet(node) in _OF_NUMBERS and _gives_booleans(node):
            return False
        return not any(tell(node) for tell in _OTHERWISE)


def _gives_booleans(node: torch.fx.Node) -> bool:
    return any(each.dtype == torch.bool for each in operators.values(node))


def _computes(node: torch.fx.Node) -> bool:
    """Tells whether a profile of floats computes an operator of whole numbers."""
    return operators.packet(node) not in (_MOVING | _OF_FLOATS)


# Through floats in all profiles.
_ROUNDING = frozenset({"div", "sum"})
# Of booleans they make a graph that is invalid.
_OF_NUMBERS = frozenset({"tril", "triu"})
# With whole numbers, what needs a profile that has them: of floats TOSA has these only for floats,
_OF_FLOATS = frozenset({"addmm", "amax", "amin", "bmm", "clamp", "mm", "neg"})
# and upstream has floats move numbers.
_MOVING = frozenset(
    {
        *("cat", "constant_pad_nd", "expand_copy", "flip", "index_put", "pad", "permute_copy"),
        *("repeat", "scatter", "select_copy", "select_scatter", "slice_copy", "slice_scatter"),
        "split_copy",
        *("split_with_sizes_copy", "squeeze_copy", "stack", "transpose_copy", "tril", "triu"),
        *("unbind_copy", "unsqueeze_copy", "view_copy"),
    }
)


# Upstream writes them as polynomials, up to 2 off, rounds halves up, takes logarithms of softmax,
# which are infinite below -100, and adds a negative number to its own root.
_APPROXIMATE = frozenset({"_log_softmax", "acos", "asin", "asinh", "atan", "log1p", "round"})
_CASTS = frozenset({"_to_copy", "_to_dim_order_copy"})
_SMALL = frozenset({torch.int8, torch.int16, torch.uint8})


def _approximates(node: torch.fx.Node) -> bool:
    """Tells whether a function of floats would be an approximation; in 8 bits it is a table."""
    return operators.packet(node) in _APPROXIMATE and not _is_table(node)


def _is_table(node: torch.fx.Node) -> bool:
    return any("dequantize" in operators.name(value) for value in node.all_input_nodes)


def _raises_oddly(node: torch.fx.Node) -> bool:
    """Tells whether a power may be one of a number below zero, or infinite, which TOSA has not.

    Norms of orders below zero have such, too. Whole exponents become products.
    """
    if operators.packet(node) not in ("linalg_vector_norm", "pow") or _is_table(node):
        return False
    exponent = node.args[1] if len(node.args) > 1 else 2
    if isinstance(exponent, torch.fx.Node):
        return True
    is_norm = operators.packet(node) == "linalg_vector_norm"
    return bool(exponent < 0 if is_norm else exponent != int(exponent))


def _rounds(node: torch.fx.Node) -> bool:
    """Tells whether a cast of fractions would round them, where torch cuts them off."""
    results, given = operators.values(node), operators.inputs(node)
    if operators.packet(node) not in _CASTS or not results or not given:
        return False
    return results[0].dtype in _SMALL and given[0].is_floating_point()


def _asks_for_zero(node: torch.fx.Node) -> bool:
    """Tells whether a cast of fractions or logic of numbers asks for zeros, as TOSA does not."""
    results, given = operators.values(node), operators.inputs(node)
    if not results or not given or results[0].dtype != torch.bool:
        return False
    if operators.packet(node) in _LOGIC:
        return any(each.dtype != torch.bool for each in given)
    return operators.packet(node) in _CASTS and given[0].is_floating_point()


_LOGIC = frozenset({"all", "any", "logical_and", "logical_not", "logical_or", "logical_xor"})


def _divides_otherwise(node: torch.fx.Node) -> bool:
    """Tells whether upstream would round a quotient of floats down, for itself or for a rest."""
    is_of_floats = all(each.is_floating_point() for each in operators.values(node))
    return is_of_floats and (operators.rounds_down(node) or operators.packet(node) == "remainder")


def _pools_or_resizes_otherwise(node: torch.fx.Node) -> bool:
    """Tells whether upstream takes the ratio of sizes for a factor, or cuts windows off wrong."""
    name = operators.packet(node)
    if name == "upsample_bilinear2d":
        return operators.has_other_factors(node)
    if name not in _CEILING:
        return False
    place = _CEILING[name]
    if len(node.args) <= place or not node.args[place]:
        return False
    windows, steps = (
        [each] * 2 if isinstance(each, int) else [*each] * (2 // len(each))
        for each in (node.args[1], node.args[2] or node.args[1])
    )
    has_divisor = name == "avg_pool2d" and node.args[6:7] not in ((), (None,))
    return has_divisor or any(w < step for w, step in zip(windows, steps, strict=True))


# Where pooling has its ceil_mode.
_CEILING = {"avg_pool2d": 4, "max_pool2d": 5, "max_pool2d_with_indices": 5}


def _gives_places(node: torch.fx.Node) -> bool:
    """Tells whether places of maxima are read: where only they are, upstream gives the maxima."""
    is_extreme = operators.name(node) in ("aten.max.dim", "aten.min.dim")
    return is_extreme and 1 in operators.read_results(node)


# What tells that TOSA computes a call otherwise than it says.
_OTHERWISE = (
    *(
        _approximates,
        arm_tables.is_missed,
        _rounds,
        _asks_for_zero,
        _divides_otherwise,
        # Of two values at one place, upstream adds one.
        operators.adds_by_place,
    ),
    *(_gives_places, _pools_or_resizes_otherwise, _raises_oddly),
)


def install() -> None:
    """Has, for this process, upstream's backends find what they fail on."""
    for backend in (EthosUBackend, TOSABackend, VgfBackend):
        replace(backend, "preprocess", functools.partial(_find_refused, backend.__name__))
    replace(SupportedTOSAOperatorCheck, "is_node_supported", _survive)
    replace(TOSABackend, "_preprocess", _check_results)
    replace(AccumulateIndexPutPass, "call_operator", _leave_sums)
    replace(ConvertMinMaxPass, "call", _leave_places)
    replace(FuseQuantizedActivationPass, "call", _keep_activations)
    replace(DecomposeSqrtPass, "call_operator", _take_roots)
    replace(FuseDuplicateUsersPass, "_build_user_signature", _tell_apart)
    replace(ReplaceScalarWithTensorArgPass, "get_replacement", _take_constants)


def _take_roots(inner: Any, self: Any, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
    """Writes roots of floats as `1 / rsqrt(x)`: upstream's are powers, undefined below zero."""
    is_root = isinstance(op, EdgeOpOverload) and op in self.target_ops
    if not is_root or not self.allowed_to_transform(meta) or self._is_quantized_meta(meta):
        return inner(self, op, args, kwargs, meta)
    dialect = ops.edge.aten if isinstance(op, EdgeOpOverload) else torch.ops.aten
    call = super(DecomposeSqrtPass, self).call_operator
    inverse = call(dialect.rsqrt.default, (args[0],), {}, meta, updated=True)
    return call(dialect.reciprocal.default, (inverse,), {}, meta, updated=True)


def _leave_sums(inner: Any, self: Any, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
    """Leaves sums by place as they are; upstream writes one of several for a place."""
    if op in self.target_ops and len(args) > 3 and args[3]:
        return super(AccumulateIndexPutPass, self).call_operator(op, args, kwargs, meta)
    return inner(self, op, args, kwargs, meta)


def _leave_places(inner: Any, self: Any, graph_module: torch.fx.GraphModule) -> Any:
    for node in graph_module.graph.nodes:
        if _gives_places(node):
            node.meta[DISALLOW_TFA_META_KEY] = True
    return inner(self, graph_module)


def _keep_activations(inner: Any, self: Any, graph_module: torch.fx.GraphModule) -> Any:
    """Has upstream leave out a ReLU behind a layer only where 0 is the least number of its scale.

    Where the scale is that of a concatenation, for example, it is not, and bytes do not end at 0.
    The layer's result gets that scale before the ReLU, too.
    """
    graph = graph_module.graph
    for node in list(graph.nodes):
        is_fused = node.op == "call_function" and self._is_fuseable_quantized_activation(node)
        if not is_fused or not self._is_fuseable_input(node.args[0]):
            continue
        [quantize] = node.users
        scale = QuantArgs.from_operator(quantize.target, quantize.args)
        if scale.zp == scale.qmin:
            continue
        layer, dequantize = node.args[0], ops.edge.quantized_decomposed.dequantize_per_tensor
        with graph.inserting_before(node):
            whole = graph.call_function(quantize.target, (layer, *quantize.args[1:]))
            whole.meta = dict(quantize.meta)
            result = graph.call_function(dequantize.default, (whole, *quantize.args[1:]))
            result.meta = dict(layer.meta)
        node.args = (result, *node.args[1:])
    return inner(self, graph_module)


# Upstream keeps them beside a call, as the factors of an ELU in 8 bits, which has others in place.
_BESIDE = ("float_alpha", "float_input_scale", "float_scale", "input_qparams", "output_qparams")


def _tell_apart(inner: Any, self: Any, node: torch.fx.Node) -> Any:
    """Has upstream join two equal calls only where what it keeps beside them is equal, too."""
    known = inner(self, node)
    beside = [str(node.meta.get(name)) for name in _BESIDE]
    return None if known is None else (*known, *beside)


def _take_constants(inner: Any, self: Any, op: Any, args: Any, kwargs: Any, meta: Any) -> Any:
    x = args[0]
    if not isinstance(x, torch.Tensor):
        return inner(self, op, args, kwargs, meta)
    # Passes get what a graph stores as it is. Upstream asks it for a method of other values.
    full = (torch.ops if isinstance(op, torch._ops.OpOverload) else ops.edge).aten.full.default
    kind = {"dtype": x.dtype, "device": x.device}
    number = ExportPass.call_operator(self, full, ((1,), float(args[1])), kind, meta)
    other = self.scalar_to_tensor_ops[op]
    return ExportPass.call_operator(self, other, (x, number, *args[2:]), kwargs, meta)


def leave_rest(partitioner: Any) -> None:
    """Leaves to ExecuTorch what upstream kept whole and its checks, or the bisection, refuse.

    Where ExecuTorch has no kernel for it, it is decomposed in another attempt.

    Args:
      partitioner: upstream's.
    """
    inner = partitioner.ops_to_not_decompose
    decomposed: set[tuple[str, str]] = set()

    def ops_to_not_decompose(program: Any) -> Any:
        kept, check = inner(program)

        def checked(node: torch.fx.Node) -> bool:
            if node.op != "call_function":
                return check is None or bool(check(node))
            call = (operators.name(node), str([tuple(x.shape) for x in operators.inputs(node)]))
            # With operators of the edge dialect upstream asks once more what is left of them.
            is_left = isinstance(node.target, EdgeOpOverload)
            # Operators that VGF has shaders for are listed in the edge dialect themselves.
            if is_left and (node.target._op in kept or node.target in kept):
                if _has_kernel(node.target._op):
                    return False
                if call not in decomposed:
                    decomposed.add(call)
                    raise LowerAgain
            return call not in decomposed and (check is None or bool(check(node)))

        return kept, checked

    partitioner.ops_to_not_decompose = ops_to_not_decompose


def _has_kernel(op: Any) -> bool:
    names = {f"{op._schema.name}.out", f"{op._schema.name}.{op._overloadname}_out"}
    return not names.isdisjoint(kernels.registered())


def fit_exchanged(partitioner: Any) -> None:
    """Has parts get and give rows, and no value twice; VGF's have a dimension at least.

    What upstream makes of other orders is right for some sizes. Operators that VGF has shaders for
    pass the checks of the others, too, which upstream asks for them in vain.

    Args:
      partitioner: upstream's.
    """
    inner = partitioner.partition
    is_vgf = partitioner.delegation_spec.backend_id == VgfBackend.__name__

    def with_checks(*checks: Any) -> Any:
        return chain(*partitioner.additional_checks or [], any_chain(*checks))

    def partition(program: Any) -> Any:
        with replaced((tosa_partitioner, "any_chain", with_checks)):
            result = inner(program)
        arm_results.give_once(result.tagged_exported_program)
        if is_vgf:
            vgf_results.compute_outside(result.tagged_exported_program)
        exchanged.fit(result.tagged_exported_program, min_rank=int(is_vgf))
        return result

    partitioner.partition = partition


def _survive(inner: Any, self: Any, submodules: Any, node: torch.fx.Node) -> bool:
    try:
        return bool(inner(self, submodules, node))
    except Exception:  # On tensors without dimensions, for example.
        return False


def _check_results(inner: Any, program: Any, spec: Any) -> Any:
    given = [s for s in program.graph_signature.input_specs if s.kind == InputKind.USER_INPUT]
    [output] = program.graph.find_nodes(op="output")
    expected = [(_dtype(v), _long(v.shape)) for v in operators.values(list(output.args[0]))]
    result = inner(program, spec)
    block = TosaGraph.TosaGraph.GetRootAs(result.processed_bytes, 0).Regions(0).Blocks(0)
    if block.InputsLength() != len(given):
        raise ValueError(f"TOSA has {block.InputsLength()} inputs, expected {len(given)}")
    tensors = [block.Tensors(n) for n in range(block.TensorsLength())]
    by_name = {tensor.Name(): tensor for tensor in tensors}
    results = [by_name[block.Outputs(n)] for n in range(block.OutputsLength())]
    got = [(_NAMES[tensor.Type()], _long(tensor.ShapeAsNumpy())) for tensor in results]
    if got != expected:
        raise ValueError(f"TOSA has the results {got}, expected {expected}")
    return result


_NAMES = {number: name.lower() for name, number in vars(DType).items() if name[0] != "_"}
_SHORT = {"float": "fp", "bfloat": "bf"}


def _dtype(value: torch.Tensor) -> str:
    """TOSA's name of a type: "fp32"."""
    name = str(value.dtype).removeprefix("torch.")
    return re.sub("^b?float", lambda found: _SHORT[found[0]], name)


def _long(shape: Any) -> list[int]:
    """Sizes above 1: TOSA has others for numbers."""
    return [int(size) for size in shape if size != 1]


def _find_refused(name: str, inner: Any, program: Any, specs: Any) -> Any:
    before = Snapshot.of(program)
    try:
        return inner(program, specs)
    except BuildError:
        raise
    except Exception as error:  # Those of passes have no common class.
        if name == VgfBackend.__name__ and find_model_converter_binary() is None:
            raise BuildError(
                "Arm's model-converter was not found in PATH.",
                "It is a program of the backend's packages: add their folder to PATH.",
            ) from error
        found = _refused.find(before, lambda part: inner(part, specs), error)
        raise BuildError(
            f"Arm's compiler ({name}) fails on {found.what}",
            "Write the layer with other operators, or use another recipe for it (overrides).",
        ) from error
