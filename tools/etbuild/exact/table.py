"""All rules by their names, why each is there, and which of them every recipe gets."""

from __future__ import annotations

from collections.abc import Mapping

from etbuild.exact import (
    activations,
    attention,
    batches,
    corners,
    experts,
    guards,
    halves,
    layouts,
    mixed_types,
    normalizations,
    padding,
    pooling,
    powers,
    products,
    resizing,
    roots,
    sizes,
    whole_numbers,
)
from etbuild.exact.rule import Rule

_GROUPS = (
    activations,
    attention,
    batches,
    corners,
    experts,
    guards,
    halves,
    layouts,
    mixed_types,
    normalizations,
    padding,
    pooling,
    powers,
    products,
    resizing,
    roots,
    sizes,
    whole_numbers,
)
RULES: Mapping[str, tuple[Rule, ...]] = {
    name: rules for group in _GROUPS for name, rules in group.RULES.items()
}
# Why, in a sentence on operators of each rule.
REASONS: Mapping[str, str] = {
    name: reason for group in _GROUPS for name, reason in group.REASONS.items()
}
# Operators that torch composes of others, some of which a rule writes out.
COMPOSITES: Mapping[str, tuple[str, ...]] = {
    **powers.COMPOSITES,
    **roots.COMPOSITES,
    **whole_numbers.COMPOSITES,
}
# Rules that all recipes get: each makes a call that fails, or whose result is wrong, into one that
# is right with ExecuTorch's own kernels, or with most delegates.
FOR_KERNELS = (
    "antialiasing",
    "attention_view",
    "boolean_power",
    "boolean_number",
    "byte_numbers",
    "channels_last",
    "double_remainder",
    "empty_padding",
    "first_number",
    "floor_division",
    "grouped_product",
    "half_comparison",
    "half_number",
    "half_result",
    "implicit_expansion",
    "index_type",
    "integer_power",
    "integer_remainder",
    "integer_shift",
    "kept_size",
    "max_pool_backward",
    "mixed_types",
    "narrow_copy",
    "negative_padding",
    "no_dimension",
    "no_elements",
    "non_blocking",
    "number_factor",
    "number_remainder",
    "one_loss",
    "one_order",
    "scalar_shape",
    "scalar_sum",
    "scalar_type",
    "single_size",
    "unfilled",
    "varying_circle",
    "varying_factor",
    "weight_order",
    "whole_correction",
    "whole_sum",
    "zero_factor",
)
# What a recipe may be told to leave inexact (`allow_inexact` of et_recipe).
CHOICES = ("addmm", "bilinear", "gelu", "reflection_pad")
