"""A partitioner for Vulkan that leaves out what its runtimes lack, or compute wrong.

Upstream's partitioner takes operators that no version of Vulkan's runtime has: a program with one
aborts while it is loaded. Others, only newer versions have; and an embedding whose table has more
rows than a texture gives other numbers, without an error. What is left out runs in ExecuTorch's own
kernels, and the program's report says why.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
import vulkan_kernels
from etbuild.operator_versions import OLDEST, VULKAN, is_older
from etlower import exchanged, guarded_logarithms, operators, own_elements, partition_tags
from executorch.backends.vulkan.partitioner import vulkan_partitioner
from executorch.backends.vulkan.partitioner.vulkan_partitioner import (
    VulkanPartitioner,
    VulkanSupportedOperators,
)
from executorch.backends.vulkan.patterns import fusable_patterns
from executorch.backends.vulkan.patterns.quantized_linear import QuantizedLinearMatch
from torch.export import ExportedProgram
from torch.fx import Node

_NOWHERE = "no version of Vulkan's runtime has this operator"
# Only as a part of a quantized linear layer, which becomes one operator.
_FUSED_ONLY = frozenset(
    {
        "quantized_decomposed.choose_qparams_per_token_asymmetric.default",
        "quantized_decomposed.dequantize_per_token.default",
        "quantized_decomposed.quantize_per_token.default",
        "torchao.dequantize_affine.default",
        "torchao.quantize_affine.default",
    }
)
_NOT = "aten.logical_not.default"
_NEVER = frozenset(
    {
        _NOT,
        "quantized_decomposed.choose_qparams.tensor",
        "quantized_decomposed.dequantize_per_tensor.tensor",
        "quantized_decomposed.quantize_per_channel.default",
        "quantized_decomposed.quantize_per_tensor.tensor",
    }
)
# Left to a newer runtime by default: its work belongs to the GPU. All others that OLDEST lacks are
# comparisons and the like, which cost the CPU next to nothing, and masks of attention have them.
_HEAVY = frozenset({"aten.grid_sampler_2d.default"})
_WEIGHT = "quantized_decomposed.dequantize_per_channel.default"
_EMBEDDING = "aten.embedding.default"
_TRANSPOSES = ("aten.permute_copy.default", "aten.t_copy.default")
# Operator to the place of the weight among its inputs.
_LINEAR = {"aten.addmm.default": 2, "aten.linear.default": 1, "aten.mm.default": 1}


class GuardedPartitioner(VulkanPartitioner):
    """Upstream's partitioner, which asks `_Supported` instead of its own class.

    Args:
      options: as upstream's.
      runtime: oldest version of ExecuTorch that shall run the programs; empty: OLDEST, but for the
        operators that must run on the GPU.
      inexact_gelu: whether GELU may be the approximation by tanh.
    """

    def __init__(
        self, options: dict[str, Any], runtime: str = "", inexact_gelu: bool = False
    ) -> None:
        super().__init__(options)
        self._runtime = runtime
        self._inexact_gelu = inexact_gelu
        self._is_half = bool(options.get("force_fp16"))

    def ops_to_not_decompose(self, ep: Any) -> Any:
        """As upstream's, without calls that the runtime gets wrong."""
        vulkan_kernels.mark(ep, self._inexact_gelu)
        kept, taken = super().ops_to_not_decompose(ep)
        return kept, lambda node: taken(node) and not vulkan_kernels.refusal(node)

    def partition(self, exported_program: Any) -> Any:
        """As upstream's."""
        _choose_patterns(self._runtime or OLDEST)
        vulkan_kernels.mark(exported_program, self._inexact_gelu)
        rounded = _rounded(exported_program) if self._is_half else {}
        upstream = vulkan_partitioner.VulkanSupportedOperators
        vulkan_partitioner.VulkanSupportedOperators = lambda *given, **named: _Supported(
            self._runtime, rounded, *given, **named
        )
        try:
            result = super().partition(exported_program)
        finally:
            vulkan_partitioner.VulkanSupportedOperators = upstream
        _keep_state(exported_program)
        # Its runtime gives rows.
        exchanged.fit(exported_program)
        _read_sizes_inside(exported_program)
        return result


def _rounded(program: ExportedProgram) -> dict[Node, str]:
    """Finds what 16-bit floats make something else of, with reasons."""
    logarithms = guarded_logarithms.calls(
        program.graph, lambda value: operators.number_of(program, value)
    )
    too_small = "16-bit floats lack the small number that keeps a logarithm's from zero"
    of_own = "elements are compared with what they come from, and 16-bit floats round them"
    return dict.fromkeys(own_elements.compared(program.graph), of_own) | dict.fromkeys(
        logarithms, too_small
    )


def _read_sizes_inside(program: ExportedProgram) -> None:
    """Has each part read the sizes of tensors itself: its runtime takes no numbers."""
    graph = program.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sym_size.int):
        own = partition_tags.of(node)
        for tag in sorted({partition_tags.of(user) for user in node.users} - {own, None}):
            with graph.inserting_before(node):
                made = graph.node_copy(node)
            made.meta = {**node.meta, partition_tags.TAG: tag}
            node.replace_all_uses_with(
                made, delete_user_cb=lambda user, tag=tag: partition_tags.of(user) == tag
            )
        if not node.users:
            graph.erase_node(node)
    program.graph_module.recompile()


def _keep_state(program: ExportedProgram) -> None:
    """Leaves state to ExecuTorch, but for caches that operators of Vulkan's write in place.

    Vulkan's runtime computes a buffer's new value, and forgets it: each call would begin anew.
    """
    signature = program.graph_signature
    nodes = {node.name: node for node in program.graph.nodes}
    written = {target: nodes[name] for name, target in signature.buffers_to_mutate.items()}
    for name, target in signature.inputs_to_buffers.items():
        if target in written and not _is_in_place(written[target]):
            nodes[name].meta.pop(partition_tags.TAG, None)


def _is_in_place(node: Node) -> bool:
    """Tells whether an operator wrote a result in place, before the graph was functional."""
    if node.target is not operator.getitem:
        return False
    return "auto_functionalized" in str(node.args[0].target)


# Operators that upstream writes for patterns of others, by the patterns' names.
_PATTERNS = {"rms_norm": "et_vk.rms_norm.default"}
_upstreams_patterns: dict[str, Any] = {}


def _choose_patterns(oldest: str) -> None:
    """Leaves out patterns of operators that a version lacks, until the next program."""
    for pattern, name in _PATTERNS.items():
        known = _upstreams_patterns.setdefault(pattern, fusable_patterns.get(pattern))
        if is_older(oldest, VULKAN[name]):
            fusable_patterns.pop(pattern, None)
        elif known is not None:
            fusable_patterns[pattern] = known


class _Supported(VulkanSupportedOperators):
    # Reports name the backend by the module of what refused a node.
    __module__ = VulkanSupportedOperators.__module__

    def __init__(
        self, runtime: str, rounded: Mapping[Node, str], *given: Any, **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self._runtime = runtime
        self._rounded = rounded
        self._fused = {
            node for match in self.fusable_subgraphs if _is_fused(match) for node in match.all_nodes
        }

    def _is_node_supported(self, node: Node) -> bool:
        reason = self._refusal(node) if node.op == "call_function" else ""
        if reason:
            self.log_skip(node, reason)
            return False
        return super()._is_node_supported(node)

    def _refusal(self, node: Node) -> str:
        """Returns why Vulkan must not get a node; empty: it may."""
        name = getattr(node.target, "__name__", "")
        if name in _NEVER:
            return _NOWHERE
        # Upstream asks so, but not of what it fuses. Scales of quantized tensors stay in layers.
        if name.startswith("aten.") and any(
            value.dtype == torch.float64 for value in operators.values(node)
        ):
            return "Vulkan has no 64-bit floats"
        if vulkan_kernels.is_stored_number(node) and not any(
            user.op == "call_function" and self._is_node_supported(user) for user in node.users
        ):
            return "nothing that Vulkan takes reads this number"
        if name in _FUSED_ONLY and not self._leads_to_fused(node):
            return f"{_NOWHERE} outside of a quantized linear layer"
        if (
            name == _WEIGHT
            and node not in self._fused
            and not _is_weight_of_linear(node, self._is_node_supported)
        ):
            return f"{_NOWHERE} outside of a quantized linear layer"
        if node in self._rounded:
            return self._rounded[node]
        first = VULKAN.get(name)
        if first and _is_only_negated(node):
            return f"nothing but {_NOT} reads it, and {_NOWHERE}"
        oldest = self._runtime or ("" if name in _HEAVY else OLDEST)
        if first and oldest and is_older(oldest, first):
            return f"ExecuTorch {oldest} lacks this operator, {first} has it"
        if name == _EMBEDDING:
            return self._embedding(node) or vulkan_kernels.refusal(node)
        return "" if node in self._fused else vulkan_kernels.refusal(node)

    def _leads_to_fused(self, node: Node) -> bool:
        """Tells whether a node, or all that reads it, becomes a part of a quantized layer."""
        return node in self._fused or (
            bool(node.users) and all(self._leads_to_fused(user) for user in node.users)
        )

    def _embedding(self, node: Node) -> str:
        rows, limit = node.args[0].meta["val"].shape[0], self.texture_limits[1]
        if rows <= limit:
            return ""
        return f"Vulkan gives other numbers for tables of more than {limit} rows: it has {rows}"


def _is_only_negated(node: Node) -> bool:
    """Tells whether all that reads a node stays behind, as in torch's attention."""
    return all(getattr(user.target, "__name__", "") == _NOT for user in node.users)


def _is_fused(match: Any) -> bool:
    """Tells whether upstream replaces what it matched: 8-bit weights only with static inputs."""
    if not isinstance(match, QuantizedLinearMatch):
        return True
    if match.is_input_static_per_tensor_quantized():
        return match.is_weight_perchannel_quantized()
    return match.is_weight_pergroup_quantized()


def _is_weight_of_linear(node: Node, takes: Callable[[Node], bool]) -> bool:
    """Tells whether a dequantized weight goes to linear layers only, which take it as it is.

    Args:
      node: the weight.
      takes: tells whether Vulkan gets a layer.
    """
    users = list(node.users)
    transposed = [user for user in users if user.target.__name__ in _TRANSPOSES]
    readers = [(user, node) for user in users if user not in transposed]
    readers += [(user, through) for through in transposed for user in through.users]
    return all(
        user.target.__name__ in _LINEAR
        and user.args[_LINEAR[user.target.__name__]] is weight
        and takes(user)
        for user, weight in readers
    )
