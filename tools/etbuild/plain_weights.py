"""Weights that torchao quantized, read by plain operators.

torchao leaves an operator in the graph, `torchao::dequantize_affine`, for which ExecuTorch has no
kernel: some delegates take it, and without one a program can't be emitted. The pass here writes it
out as conversions and products, which ExecuTorch's own kernels and XNNPACK compute. Weights of 4
bits are packed, two in a byte: torchao keeps each in a byte of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from etbuild.recipes import groups_fit

if TYPE_CHECKING:
    import torch
    from executorch.export import ExportRecipe
    from torch.export import ExportedProgram

# Least number of a signed weight of 4 bits, and the step between the halves of a byte.
_LEAST, _STEP = -8, 16
_NUMBERS = (1 / _STEP, _STEP, _LEAST)


def weight_only(recipe: ExportRecipe, bits: int, group_size: int = 0) -> ExportRecipe:
    """Lets a recipe quantize the weights of linear layers, and nothing else, for plain operators.

    Args:
      recipe: it is changed.
      bits: of a weight, 4 or 8.
      group_size: columns that share a scale; 0: a row does. Layers whose columns are not a multiple
        of it stay as they are.

    Returns:
      The recipe.

    Example:

        weight_only(ExportRecipe(name="portable_int8"), bits=8)
    """
    import torch
    from executorch.export import AOQuantizationConfig, QuantizationRecipe
    from torchao.quantization.granularity import PerAxis, PerGroup
    from torchao.quantization.quant_api import IntxWeightOnlyConfig

    config = IntxWeightOnlyConfig(
        weight_dtype={4: torch.int4, 8: torch.int8}[bits],
        granularity=PerGroup(group_size) if group_size else PerAxis(0),
    )
    layers = AOQuantizationConfig(config, filter_fn=groups_fit(group_size or 1))
    recipe.quantization_recipe = QuantizationRecipe(ao_quantization_configs=[layers])
    recipe.aten_transform_passes = [*(recipe.aten_transform_passes or []), plain_weights]
    return recipe


def plain_weights(_method: str, program: ExportedProgram) -> ExportedProgram:
    """A pass for `ExportRecipe.aten_transform_passes`; it changes the program.

    Args:
      _method: name of the method; unused.
      program: one whose linear layers torchao quantized, weights only.

    Returns:
      The program without torchao's operators.

    Example:

        ExportRecipe(name="int8", aten_transform_passes=[plain_weights], …)
    """
    import torch

    dequantize = torch.ops.torchao.dequantize_affine.default
    nodes = [node for node in program.graph.nodes if node.target is dequantize]
    packed: dict[str, torch.Tensor] = {}
    for node in nodes:
        _rewrite(program, node, packed)
    program.graph.eliminate_dead_code()
    # Traces the graph again, which gives the new nodes their shapes.
    return program.run_decompositions({}) if nodes else program


def _rewrite(program: ExportedProgram, node: Any, packed: dict[str, torch.Tensor]) -> None:
    """Replaces a node by plain operators; `packed`: weights of 4 bits by name."""
    import torch

    aten = torch.ops.aten
    stored, block, scale, zero, _, least = node.args[:6]
    dtype, (rows, columns) = node.meta["val"].dtype, node.meta["val"].shape
    group = block[1]
    is_packed = least == _LEAST and group % 2 == 0
    if is_packed:
        _pack(program, stored, group, packed)
    per_group = [rows, columns // group, 1]
    with program.graph.inserting_before(node):

        def call(target: Any, *args: Any, **kwargs: Any) -> Any:
            return program.graph.call_function(target, args, kwargs)

        values = call(aten._to_copy.default, stored, dtype=dtype)
        if is_packed:
            # Tensors of one number: XNNPACK takes no scalars.
            number = {n: call(aten.full.default, [1], n, dtype=dtype) for n in _NUMBERS}
            upper = call(aten.floor.default, call(aten.mul.Tensor, values, number[1 / _STEP]))
            lower = call(aten.sub.Tensor, values, call(aten.mul.Tensor, upper, number[_STEP]))
            values = call(aten.cat.default, [upper, lower], -1)
            values = call(aten.add.Tensor, values, number[_LEAST])
        else:
            values = call(aten.view.default, values, [rows, columns // group, group])
        if _tensor(program, zero).any():
            shift = call(aten._to_copy.default, zero, dtype=dtype)
            shift = call(aten.view.default, shift, per_group)
            values = call(aten.sub.Tensor, values, shift)
        factors = call(aten.view.default, scale, per_group)
        values = call(aten.mul.Tensor, values, factors)
        values = call(aten.view.default, values, [rows, columns])
    node.replace_all_uses_with(values)
    program.graph.erase_node(node)


def _pack(
    program: ExportedProgram, placeholder: Any, group: int, packed: dict[str, torch.Tensor]
) -> None:
    """Puts two halves of a group into bytes, the first one's numbers in the upper bits.

    The weight of (rows, columns) becomes one of (rows, groups, half of a group), unsigned.
    """
    import torch

    name = _name(program, placeholder)
    if name not in packed:
        numbers = program.state_dict[name]
        halves = (numbers.view(numbers.shape[0], -1, 2, group // 2) - _LEAST).to(torch.uint8)
        packed[name] = halves[:, :, 0] * _STEP + halves[:, :, 1]
        program.state_dict[name] = torch.nn.Parameter(packed[name], requires_grad=False)
        fake = placeholder.meta["val"]
        placeholder.meta["val"] = fake.new_empty(packed[name].shape, dtype=torch.uint8)


def _name(program: ExportedProgram, placeholder: Any) -> str:
    signature = program.graph_signature
    named = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
    return named[placeholder.name]


def _tensor(program: ExportedProgram, placeholder: Any) -> torch.Tensor:
    return program.state_dict[_name(program, placeholder)]
