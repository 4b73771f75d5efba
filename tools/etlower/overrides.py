"""Other recipes for some layers: mixed precision in one program.

A recipe's `overrides` name layers by patterns of qualified names, and give each pattern another
recipe. The first pattern that matches a layer, or a module that the layer is in, decides which
recipe quantizes it. Each recipe quantizes as if it were alone, and what it does to layers of
another one is dropped:

- torchao takes a layer if the recipe's own filter does and the layer is the recipe's;
- PT2E quantizers annotate the whole graph one after the other, and each node keeps the annotation
  of its recipe's quantizer. A scale that is shared with a node of another recipe is dropped.

All recipes lower with the same backend, so the partitioners of all are asked in turn.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from typing import Any

import torch
from etbuild import BuildError, ModelSpec
from etbuild.errors import listed
from etbuild.recipes import LayerFilter
from executorch.export import AOQuantizationConfig, ExportRecipe, QuantizationRecipe, stages
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer.quantizer import (
    Q_ANNOTATION_KEY,
    QuantizationAnnotation,
    Quantizer,
    SharedQuantizationSpec,
)

from etlower import operators
from etlower.annotations import drop_references, places

_PASSES = (
    "pre_prepare_passes",
    "post_prepare_passes",
    "pre_convert_passes",
    "post_convert_passes",
)
# Of a recipe, and of its quantization: they are for all layers.
_WHOLE = ("pipeline_stages", "strict", "mode")
_TRANSFORMS = "aten_transform_passes"
_SETTINGS = ("is_qat", "dynamic_batch_size", "train_fn", "calibration_inputs_fn", "fold_quantize")


@dataclass(frozen=True)
class Override:
    """Another recipe for some layers.

    Attributes:
      pattern: of qualified names, with `*`, `?` and `[…]` as in a shell; `*` also takes dots.
      label: the recipe's target.
      recipe: the recipe.
    """

    pattern: str
    label: str
    recipe: ExportRecipe


@dataclass(frozen=True)
class Owners:
    """The recipes that layers belong to.

    Attributes:
      overrides: in the order in which they are asked.
      label: of the recipe that has them, for messages.
    """

    overrides: tuple[Override, ...]
    label: str = ""
    _known: dict[str, int] = field(default_factory=dict, compare=False, repr=False)

    def of(self, name: str) -> int:
        """Number of the override that a module belongs to, by its qualified name; -1: none."""
        if name not in self._known:
            self._known[name] = self._of(name)
        return self._known[name]

    def _of(self, name: str) -> int:
        parts = name.split(".")
        names = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        for number, override in enumerate(self.overrides):
            if any(fnmatchcase(candidate, override.pattern) for candidate in names):
                return number
        return -1

    def check(self, names: Iterable[str]) -> None:
        """Fails for a pattern that no module belongs to.

        Args:
          names: qualified names of the model's modules.

        Raises:
          BuildError: with names that the model has.
        """
        known = sorted(set(names) - {""})
        used = {self.of(name) for name in known}
        for number, override in enumerate(self.overrides):
            if number not in used:
                raise BuildError(
                    f'{self.label}: overrides: "{override.pattern}" decides for no module of the '
                    f"model. Its modules: {listed(known)}.",
                    "Correct the pattern, or move it before one that takes the same modules.",
                )


@dataclass
class MixedQuantization(QuantizationRecipe):
    """A quantization with other recipes for some layers.

    Attributes:
      owners: which recipe a layer belongs to; several, where recipes with overrides are combined.
    """

    owners: tuple[Owners, ...] = ()

    def check(self, modules: Mapping[str, Any]) -> None:
        """Fails for a pattern that no module of the methods belongs to.

        Raises:
          BuildError: with the pattern.
        """
        names = {n for m in modules.values() for n in _module_names(m)}
        for owners in self.owners:
            owners.check(names)


def described(recipe: ExportRecipe, spec: ModelSpec) -> list[dict[str, Any]]:
    """The overrides of a recipe for a report.

    Args:
      recipe: any.
      spec: the model.

    Returns:
      For each: its `pattern`, the `recipe`, and the `layers` that belong to it.
    """
    quantization = recipe.quantization_recipe
    if not isinstance(quantization, MixedQuantization):
        return []
    names = sorted({n for m in spec.methods.values() for n in _layers(m.module)})
    return [
        {
            "pattern": override.pattern,
            "recipe": override.label,
            "layers": [name for name in names if owners.of(name) == number],
        }
        for owners in quantization.owners
        for number, override in enumerate(owners.overrides)
    ]


def combined(parts: Sequence[ExportRecipe]) -> ExportRecipe:
    """Upstream's combination of recipes, which checks the patterns of those that have overrides.

    Raises:
      ValueError: the recipes contradict each other.
    """
    recipe = ExportRecipe.combine(list(parts))
    quantizations = [part.quantization_recipe for part in parts]
    owners = [o for q in quantizations if isinstance(q, MixedQuantization) for o in q.owners]
    if not owners or isinstance(recipe.quantization_recipe, MixedQuantization):
        return recipe
    values = {
        f.name: getattr(recipe.quantization_recipe, f.name) for f in fields(QuantizationRecipe)
    }
    quantization = MixedQuantization(**values, owners=tuple(owners))
    return dataclasses.replace(recipe, quantization_recipe=quantization)


def mixed(base: ExportRecipe, overrides: Sequence[Override], label: str) -> ExportRecipe:
    """A recipe with other recipes for some layers.

    Args:
      base: for all other layers.
      overrides: in the order in which they are asked.
      label: of the result, for messages.

    Returns:
      An ExportRecipe whose quantization is a MixedQuantization.

    Raises:
      BuildError: the recipes differ in what can be done for a whole model only.
    """
    owners = Owners(tuple(overrides), label)
    parts = {-1: base, **dict(enumerate(o.recipe for o in overrides))}
    quantizations = {n: p.quantization_recipe for n, p in parts.items() if p.quantization_recipe}
    for number, override in enumerate(overrides):
        _check_agree(base, override, label, quantizations.get(-1), quantizations.get(number))
    bare = [dataclasses.replace(part, quantization_recipe=None) for part in parts.values()]
    try:
        combined = ExportRecipe.combine(bare, base.name)
    except ValueError as error:
        raise BuildError(
            f"{label}: overrides: its recipes cannot be mixed: {error}.",
            "Choose recipes of one backend that lower alike.",
        ) from error
    first = next(iter(quantizations.values()), None)
    settings = {s: getattr(first, s) for s in _SETTINGS[:-1] if first}
    quantization = MixedQuantization(
        quantizers=_quantizers(quantizations, owners),
        ao_quantization_configs=_configs(quantizations, owners, label) or None,
        owners=(owners,),
        **settings,
        **{name: _passes(quantizations.values(), name) for name in _PASSES},
    )
    if first is not None and not getattr(first, "fold_quantize", True):
        quantization.fold_quantize = False
    return dataclasses.replace(combined, quantization_recipe=quantization)


def _check_agree(base: ExportRecipe, override: Override, label: str, one: Any, other: Any) -> None:
    where = f'{label}: overrides: "{override.pattern}" ({override.label})'
    pairs = [(name, base, override.recipe) for name in _WHOLE]
    if getattr(base, _TRANSFORMS) and getattr(override.recipe, _TRANSFORMS):
        pairs.append((_TRANSFORMS, base, override.recipe))
    if one is not None and other is not None:
        pairs += [(name, one, other) for name in _SETTINGS]
    for name, left, right in pairs:
        if getattr(left, name, None) != getattr(right, name, None):
            raise BuildError(
                f"{where} cannot be mixed: its {name} differs from the base's, which is for whole "
                "models.",
                "Choose recipes that agree in it.",
            )
    if one is None or other is None:
        return
    for name in _PASSES:
        passes = [getattr(q, name) or [] for q in (one, other)]
        if all(passes) and _kinds(passes[0]) != _kinds(passes[1]):
            raise BuildError(
                f"{where} cannot be mixed: both recipes have {name}, and they differ.",
                "Choose recipes that agree in it.",
            )


def _kinds(passes: Iterable[Any]) -> list[str]:
    return [getattr(p, "__qualname__", type(p).__qualname__) for p in passes]


def _passes(quantizations: Iterable[Any], name: str) -> list[Any] | None:
    """Those of the first recipe that has any: others have the same."""
    return next((getattr(q, name) for q in quantizations if getattr(q, name)), None)


class OwnedLayers:
    """A torchao filter that takes the layers of one recipe.

    Args:
      inner: the recipe's own filter.
      owners: which recipe a layer belongs to.
      number: the recipe.

    Attributes:
      inner: the recipe's own filter.
    """

    def __init__(
        self, inner: Callable[[torch.nn.Module, str], bool], owners: Owners, number: int
    ) -> None:
        self.inner = inner
        self._owners = owners
        self._number = number

    def __call__(self, module: torch.nn.Module, name: str) -> bool:
        """Tells whether torchao may quantize this layer."""
        return self._owners.of(name) == self._number and self.inner(module, name)


def layer_filters(recipe: ExportRecipe) -> list[LayerFilter]:
    """The filters of a recipe's torchao configurations that remember what they left alone."""
    quantization = recipe.quantization_recipe
    configs = (quantization and quantization.ao_quantization_configs) or []
    filters = (getattr(c.filter_fn, "inner", c.filter_fn) for c in configs)
    return [f for f in filters if isinstance(f, LayerFilter)]


def _configs(
    quantizations: Mapping[int, Any], owners: Owners, label: str
) -> list[AOQuantizationConfig]:
    from torchao.quantization.quant_api import _is_linear

    configs = []
    for number, quantization in quantizations.items():
        for config in quantization.ao_quantization_configs or []:
            if hasattr(config.ao_base_config, "fqn_to_config"):
                raise BuildError(
                    f"{label}: overrides: a recipe chooses layers by name itself (FqnToConfig), "
                    "which cannot be mixed with others.",
                    "Choose layers in one place: in FqnToConfig, or in overrides.",
                )
            mine = OwnedLayers(config.filter_fn or _is_linear, owners, number)
            configs.append(dataclasses.replace(config, filter_fn=mine))
    return configs


def _quantizers(quantizations: Mapping[int, Any], owners: Owners) -> list[Quantizer] | None:
    parts = {n: q for n, q in quantizations.items() if q.quantizers}
    if not parts:
        return None
    return [
        MixedQuantizer(
            {
                n: stages.QuantizeStage(q)._get_quantizer_for_prepare_pt2e(q.quantizers)
                for n, q in parts.items()
            },
            owners,
        )
    ]


class MixedQuantizer(Quantizer):
    """Several PT2E quantizers, each for the nodes of its own layers.

    Args:
      parts: quantizers by number of the override; -1: the base's.
      owners: which recipe a layer belongs to.
    """

    def __init__(self, parts: Mapping[int, Quantizer], owners: Owners) -> None:
        self._parts = parts
        self._owners = owners

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """As each of them, one after the other."""
        for part in self._parts.values():
            model = part.transform_for_annotation(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotates as each of them, and keeps for a node what its own one says."""
        kept: dict[Node, QuantizationAnnotation] = {}
        dropped: set[Any] = set()
        for number, part in self._parts.items():
            part.annotate(model)
            annotations = {
                node: node.meta.pop(Q_ANNOTATION_KEY)
                for node in model.graph.nodes
                if Q_ANNOTATION_KEY in node.meta
            }
            mine: dict[Node, QuantizationAnnotation] = {}
            for node, annotation in annotations.items():
                owner = self._owners.of(operators.module_of(_first_of_fused(node, annotations)))
                if owner == number or (owner < 0 and _passes_on(node, annotation, mine)):
                    mine[node] = annotation
                else:
                    dropped |= places(node, annotation)
            kept |= mine
        for node, annotation in kept.items():
            node.meta[Q_ANNOTATION_KEY] = annotation
            dropped -= places(node, annotation)
        drop_references(model, dropped)
        return model

    def validate(self, model: GraphModule) -> None:
        """As each of them."""
        for part in self._parts.values():
            part.validate(model)

    def prepare_obs_or_fq_callback(self, model: GraphModule, observers: Any) -> None:
        """As each of them."""
        for part in self._parts.values():
            part.prepare_obs_or_fq_callback(model, observers)


def _passes_on(
    node: Node, annotation: QuantizationAnnotation, mine: Mapping[Node, QuantizationAnnotation]
) -> bool:
    """Tells whether a node, such as a pooling, only hands on what layers of its recipe computed.

    Without the annotation its output would get another scale than its input, and XNNPACK has no
    such pooling: the program could not be loaded.
    """
    return isinstance(annotation.output_qspec, SharedQuantizationSpec) and all(
        source in mine for source in node.all_input_nodes
    )


def _first_of_fused(node: Node, annotations: Mapping[Node, QuantizationAnnotation]) -> Node:
    """The layer whose output a node computes: of a layer and its activation, the layer.

    Quantizers annotate the inputs of the first and the output of the second, which mostly belongs
    to the module around the layer.
    """
    sources = node.all_input_nodes
    first = annotations.get(sources[0]) if len(sources) == 1 else None
    if first is None or first.output_qspec is not None or not first.input_qspec_map:
        return node
    return sources[0] if not any((annotations[node].input_qspec_map or {}).values()) else node


def _module_names(module: Any) -> Iterable[str]:
    if isinstance(module, torch.export.ExportedProgram):
        return {operators.module_of(node) for node in module.graph.nodes}
    return {name for name, _ in module.named_modules()}


def _layers(module: Any) -> Iterable[str]:
    """Qualified names of the modules that have parameters of their own."""
    if isinstance(module, torch.export.ExportedProgram):
        return {name.rpartition(".")[0] for name in module.graph_signature.parameters}
    return {
        n for n, m in module.named_modules() if next(m.parameters(recurse=False), None) is not None
    }
