"""The layers of a model, and each of them as a recipe quantizes it, in the eager model.

torchao's recipes replace layers of the eager model, so a layer is taken from a copy that was
quantized whole. PT2E's recipes quantize a graph: a graph that has the layers side by side, under
their names and with the inputs that they have in the model, is quantized as a program would be.
Which layers that are is asked of the whole graph, where what stands before and behind a layer
decides, too. What PT2E does beyond layers with weights (an addition between two of them) is not
measured, nor are its fusions.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from etbuild import BuildError, Method, ModelSpec
from executorch.export import ExportRecipe

from etlower import stages
from etlower.inputs import deep_copy
from etlower.quantize import quantize, quantized_weights

# Positional arguments of one call.
Call = tuple[Any, ...]


@dataclass
class Layer:
    """A module with weights of its own, which methods may share.

    Attributes:
      names: its qualified names, sorted.
      module: the float layer.
      bytes: of its weights, without those that other modules have too.
      places: the modules that it is a child of, with the child's name.
      variants: by recipe: the quantized layer; None: the recipe leaves it as it is.
      variant_bytes: by recipe: bytes of its weights then.
    """

    names: list[str]
    module: torch.nn.Module
    bytes: int
    places: list[tuple[torch.nn.Module, str]]
    variants: list[torch.nn.Module | None] = field(default_factory=list)
    variant_bytes: list[int] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    def put(self, number: int | None) -> torch.nn.Module:
        """Puts a variant in the layer's places; returns it. None: the float layer.

        Args:
          number: of the recipe.
        """
        variant = (self.variants[number] if number is not None else None) or self.module
        for parent, child in self.places:
            parent._modules[child] = variant
        return variant


def copies(spec: ModelSpec, label: str) -> dict[str, torch.nn.Module]:
    """Copies of a model's methods, which share what the methods share, weights included.

    Language models return the logits of all tokens, as they are scored by them.

    Raises:
      BuildError: a method is an exported program, which has no layers to replace.
    """
    modules = {name: method.module for name, method in spec.methods.items()}
    for name, module in modules.items():
        if isinstance(module, torch.export.ExportedProgram):
            raise BuildError(
                f'{label}: the method "{name}" is an exported program, whose layers cannot '
                "be replaced: expected an eager model.",
                "Measure a program of the model's code.",
            )
    weights = {id(p): p for module in modules.values() for p in module.parameters()}
    copied = {n: stages.with_parent(m) for n, m in deep_copy(modules, weights).items()}
    for module in copied.values():
        for part in module.modules():
            if hasattr(part, "generate_full_logits"):
                part.generate_full_logits = True
    return copied


def find(modules: Mapping[str, torch.nn.Module]) -> list[Layer]:
    """The modules that have matrices of weights of their own, in the order of the model.

    Args:
      modules: as `copies` returns them.
    """
    users = _users(modules)
    found: dict[int, Layer] = {}
    for root in modules.values():
        for prefix, parent in root.named_modules(remove_duplicate=False):
            for child, module in parent._modules.items():
                if module is None or not _has_matrix(module):
                    continue
                # What layers in it have is theirs.
                parameters = module.parameters(recurse=False)
                own = [p for p in parameters if len(users[id(p)]) == 1]
                layer = found.setdefault(id(module), Layer([], module, sum(map(_stored, own)), []))
                name = f"{prefix}.{child}" if prefix else child
                layer.names = sorted({*layer.names, name})
                if not any(p is parent and c == child for p, c in layer.places):
                    layer.places.append((parent, child))
    return list(found.values())


def _users(modules: Mapping[str, torch.nn.Module]) -> dict[int, set[int]]:
    """By parameter: the modules that have it."""
    users: dict[int, set[int]] = {}
    for root in modules.values():
        for module in root.modules():
            for parameter in module.parameters(recurse=False):
                users.setdefault(id(parameter), set()).add(id(module))
    return users


def _has_matrix(module: torch.nn.Module) -> bool:
    return any(p.dim() > 1 for p in module.parameters(recurse=False))


def total_bytes(modules: Mapping[str, torch.nn.Module]) -> int:
    """Bytes of all parameters, each once."""
    parameters = {id(p): p for module in modules.values() for p in module.parameters()}
    return sum(map(_stored, parameters.values()))


def add_variants(
    layers: Sequence[Layer],
    spec: ModelSpec,
    recipe: ExportRecipe,
    calls: Mapping[int, Sequence[Call]],
    label: str,
) -> None:
    """Adds to each layer what a recipe makes of it.

    Args:
      layers: of `find`.
      spec: the model.
      recipe: torchao or PT2E, or both for other layers.
      calls: by id of a float layer, the inputs of its calls.
      label: of the model, for messages.

    Raises:
      BuildError: the recipe trains the model.
    """
    quantization = recipe.quantization_recipe
    if quantization is not None and quantization.is_qat:
        raise BuildError(
            f"{label}: the recipe {recipe.name} trains the model (is_qat), which cannot be "
            "measured layer by layer.",
            "Measure a recipe that quantizes after training.",
        )
    modules = {name: method.module for name, method in spec.methods.items()}
    transformed = stages.quantized_sources(modules, recipe, label)
    by_torchao = {id(layer.module): _transformed(layer, transformed) for layer in layers}
    others = [layer for layer in layers if by_torchao[id(layer.module)] is None]
    graphs: dict[int, torch.nn.Module] = {}
    if quantization is not None and quantization.quantizers:
        weights = {_place(w) for w in quantized_weights(modules, spec, recipe, label)}
        quantized = [
            layer
            for layer in others
            if any(_place(p) in weights for p in layer.module.parameters(recurse=False))
        ]
        graphs = _apart(quantized, recipe, calls, label)
    for layer in layers:
        variant = by_torchao[id(layer.module)] or graphs.get(id(layer.module))
        layer.variants.append(variant)
        size = layer.bytes if variant is None else sum(map(_stored, _tensors(variant)))
        layer.variant_bytes.append(size)


def _transformed(layer: Layer, modules: Mapping[str, Any]) -> torch.nn.Module | None:
    """The layer of a model that torchao quantized; None: it is as it was."""
    for module in modules.values():
        for name in layer.names:
            try:
                candidate = module.get_submodule(name)
            except AttributeError:
                continue
            if any(map(_is_quantized, candidate.parameters(recurse=False))):
                # The layers in it are put there one by one.
                variant = copy.copy(candidate)
                variant._modules = layer.module._modules
                return variant
    return None


def _place(tensor: torch.Tensor) -> int:
    """Returns where a weight is, which graphs of the model share."""
    return tensor.untyped_storage().data_ptr()


def _is_quantized(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "__tensor_flatten__")


class _Apart(torch.nn.Module):
    """Layers under their qualified names, each with inputs of its own."""

    def __init__(self, layers: Sequence[Layer], counts: Sequence[int]) -> None:
        super().__init__()
        self._names, self._counts = [layer.name for layer in layers], list(counts)
        for layer in layers:
            *parents, child = layer.name.split(".")
            parent: torch.nn.Module = self
            for part in parents:
                if part not in parent._modules:
                    parent.add_module(part, torch.nn.Module())
                parent = parent._modules[part]
            parent.add_module(child, layer.module)

    def forward(self, *inputs: Any) -> Any:
        outputs, begin = [], 0
        for name, count in zip(self._names, self._counts, strict=True):
            outputs.append(self.get_submodule(name)(*inputs[begin : begin + count]))
            begin += count
        return tuple(outputs)


def _apart(
    layers: Sequence[Layer],
    recipe: ExportRecipe,
    calls: Mapping[int, Sequence[Call]],
    label: str,
) -> dict[int, torch.nn.Module]:
    """By id of a float layer, what PT2E makes of it, where it does anything.

    One graph has all layers side by side: a graph for each of them would take seconds.
    """
    seen = [layer for layer in layers if _is_seen(layer, calls.get(id(layer.module), ()))]
    if not seen:
        return {}
    samples = _side_by_side([calls[id(layer.module)] for layer in seen])
    counts = [len(calls[id(layer.module)][0]) for layer in seen]
    module = _Apart(seen, counts).eval()
    method = Method(module, samples[0], dynamic_shapes=_shapes(samples), strict=False)
    spec = ModelSpec({"forward": method}, calibration=lambda: samples)
    graph = quantize({"forward": module}, spec, recipe, label)["forward"]
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    (outputs,) = next(node for node in graph.graph.nodes if node.op == "output").args
    parts = {}
    for layer, count, output in zip(seen, counts, outputs, strict=True):
        part = _part(graph, inputs[:count], output)
        inputs = inputs[count:]
        if any("quantize_" in str(node.target) for node in part.graph.nodes):
            parts[id(layer.module)] = part
    return parts


def _is_seen(layer: Layer, calls: Sequence[Call]) -> bool:
    """Tells whether a layer ran with tensors alone, and gives one."""
    if not calls:
        return False
    with torch.no_grad():
        return isinstance(layer.module(*calls[0]), torch.Tensor)


def _side_by_side(calls: Sequence[Sequence[Call]]) -> list[Call]:
    """The calls of all layers as inputs of one; a layer's last one stands for missing ones."""
    most = max(map(len, calls))
    return [
        tuple(value for of_layer in calls for value in of_layer[min(n, len(of_layer) - 1)])
        for n in range(most)
    ]


def _part(graph: torch.fx.GraphModule, inputs: Sequence[Any], output: Any) -> torch.nn.Module:
    """The part of a graph that leads from inputs to an output."""
    needed, queue = set(inputs), [output]
    while queue:
        node = queue.pop()
        if node not in needed:
            needed.add(node)
            queue += node.all_input_nodes
    part = torch.fx.Graph()
    copied: dict[Any, Any] = {}
    for node in [*inputs, *(n for n in graph.graph.nodes if n in needed and n not in inputs)]:
        copied[node] = part.node_copy(node, lambda n: copied[n])
    part.output(copied[output])
    return torch.fx.GraphModule(graph, part)


def _shapes(calls: Sequence[Call]) -> Any:
    """Sizes that differ between calls are dynamic."""
    shapes = [[tuple(value.shape) for value in call] for call in calls]
    if all(shape == shapes[0] for shape in shapes):
        return None
    dynamic = tuple(
        {
            n: torch.export.Dim.AUTO
            for n in range(len(shape))
            if any(other[position][n] != shape[n] for other in shapes)
        }
        for position, shape in enumerate(shapes[0])
    )
    # The parameters of `_Apart` are one tuple.
    return (dynamic,)


def _tensors(module: torch.nn.Module) -> Iterable[torch.Tensor]:
    """Weights of a quantized layer, each once."""
    if isinstance(module, torch.fx.GraphModule):
        targets = {str(node.target) for node in module.graph.nodes if node.op == "get_attr"}
        return [operator.attrgetter(target)(module) for target in sorted(targets)]
    return {id(tensor): tensor for tensor in module.parameters(recurse=False)}.values()


def _stored(tensor: torch.Tensor) -> int:
    """Bytes of a tensor in a program, 4-bit numbers packed; zero points of 0 are not stored."""
    if not _is_quantized(tensor):
        return tensor.numel() * tensor.element_size()
    names, attributes = tensor.__tensor_flatten__()
    parts = {name: getattr(tensor, name) for name in names}
    bits = _bits(attributes.get("target_dtype") if isinstance(attributes, dict) else None)
    size = 0
    for name, part in parts.items():
        if name == "qdata" and bits:
            size += -(-part.numel() * bits // 8)
        elif "zero_point" not in name or part.any():
            size += _stored(part)
    return size


def _bits(dtype: torch.dtype | None) -> int:
    """Bits of torch's dtypes for small integers ("torch.int4"); 0: of no such dtype."""
    digits = str(dtype).removeprefix("torch.").removeprefix("u").removeprefix("int")
    return int(digits) if digits.isdecimal() else 0
