"""Recipes for Qualcomm's NPUs through QNN's HTP backend (executorch/backends/qualcomm).

All take these options:
  soc_model: the chip, as SM8650 (default), Snapdragon 8 Gen 3; see BUILD.bazel for others.
  weight_sharing: whether several methods hold one copy of equal weights; default true for chips
    that can, from HTP v73 (Snapdragon 8 Gen 2) on. QNN's simulator loads no such program: what runs
    one here lowers a twin without, and says so.
  skip_ops: names of operators that QNN doesn't get, with commas: "aten.add.Tensor".
  skip_mutable_buffer: whether state, such as a KV cache, stays with ExecuTorch; default true, as
    in upstream's export_llm: held by QNN it was wrong from the third call on (QNN 2.49). With
    several methods it always stays with ExecuTorch.

Upstream has a recipe for fp16 only; the others put its quantizer before the same lowering. What is
ours in that lowering is in qualcomm_partitioner.py and qualcomm_compiler.py.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from etbuild import BuildError, RecipeContext, static_shapes, write_out
from etbuild.exact import write_out_before_quantization
from etbuild.exact.corners import FROM_START
from etbuild.recipes import static_captured
from etlower import operators
from executorch.exir import ExecutorchBackendConfig
from executorch.export import ExportRecipe, LoweringRecipe, QuantizationRecipe
from qualcomm_floats import FunctionsApart, LowerBounds, OneZero, RoundedResults
from qualcomm_refusals import for_qnn
from torch.export import ExportedProgram
from vendor_sdk import Sdk

_LIBRARIES = "lib/x86_64-linux-clang"
_HTP = "libQnnHtp.so"
# Of etbuild.write_out, for floats.
_OF_ALL = (
    *("half_quotient", "half_range", "half_variance", "instance_norm", "norm_order", "one_place"),
)
_RULES = (
    *("hidden_rows", "attention_heads", "counted_back", "einsum", "elu", *_OF_ALL),
    "many_dimensions",
    *("negative_power", "no_batch", "norm_dimensions", "rank", "single_any", "sum_factor"),
    *("uneven_padding", "zeroth_power"),
)


def fp16(ctx: RecipeContext) -> ExportRecipe:
    """16-bit floats; inputs and outputs keep their types. Chips from Snapdragon 8 Gen 1 on."""
    return _recipe(ctx, "qnn_fp16")


def int8(ctx: RecipeContext) -> ExportRecipe:
    """8-bit weights, one scale a channel, and activations; needs calibration (PT2E)."""
    return _recipe(ctx, "qnn_int8", "use_8a8w")


def a16w8(ctx: RecipeContext) -> ExportRecipe:
    """16-bit activations and 8-bit weights, one scale a channel; needs calibration (PT2E)."""
    return _recipe(ctx, "qnn_a16w8", "use_16a8w")


def a16w4(ctx: RecipeContext) -> ExportRecipe:
    """16-bit activations and 4-bit weights, one scale a channel; needs calibration (PT2E)."""
    return _recipe(ctx, "qnn_a16w4", "use_16a4w")


def _recipe(ctx: RecipeContext, name: str, precision: str = "") -> ExportRecipe:
    """A recipe.

    Args:
      ctx: of the builder.
      name: of the recipe, as upstream writes it.
      precision: a QuantDtype of upstream's quantizer; empty: floats.
    """
    options = ctx.options
    soc_model = options.text("soc_model", "SM8650")
    skips_state = options.boolean("skip_mutable_buffer", default=True)
    skipped = {op.strip() for op in options.text("skip_ops", "").split(",") if op.strip()}
    # Its default is the chip's.
    asked = options.boolean("weight_sharing", default=None)
    load_libraries(ctx)
    import qualcomm_compiler
    import qualcomm_partitioner
    from executorch.backends.qualcomm._passes.qnn_pass_manager import get_qnn_pass_manager_cls
    from executorch.backends.qualcomm.serialization.qc_schema import QnnExecuTorchBackendType
    from executorch.backends.qualcomm.utils.utils import qnn_edge_config
    from qualcomm_passes import (
        BoundedExponents,
        BoundsInScale,
        PlaceholdersFirst,
        SameIntegers,
        without_places,
    )
    from qualcomm_quantizer import enlarge_scales
    from qualcomm_scales import centered, in_a_row, in_given_scale, in_results_scale

    qualcomm_compiler.install()
    chip = _chip(ctx, soc_model)
    specs = _specs(chip, _shares(ctx, chip, asked), has_floats=not precision)
    passes = get_qnn_pass_manager_cls(QnnExecuTorchBackendType.kHtpBackend)
    partitioner = qualcomm_partitioner.Partitioner(
        ctx.label,
        chip.name,
        specs,
        has_floats=not precision,
        skip_node_op_set=skipped,
        skip_mutable_buffer=skips_state,
    )
    lowering = LoweringRecipe(
        partitioners=[partitioner],
        edge_transform_passes=[
            lambda method, program: [
                BoundedExponents(),
                LowerBounds(),
                FunctionsApart(),
                BoundsInScale(),
                OneZero(program),
                *passes().get_to_edge_transform_passes(program),
                SameIntegers(),
                PlaceholdersFirst(),
            ]
        ],
        edge_compile_config=qnn_edge_config(),
    )
    return ExportRecipe(
        name=name,
        quantization_recipe=QuantizationRecipe(
            quantizers=[quantizer(chip, precision)],
            pre_prepare_passes=[static_captured(ctx.label, "QNN"), without_places, _write_out],
            pre_convert_passes=[enlarge_scales],
            post_convert_passes=[in_given_scale, in_results_scale, centered, in_a_row],
        )
        if precision
        else None,
        aten_transform_passes=[
            static_shapes(ctx.label, "QNN"),
            specs.note,
            for_qnn(ctx.label),
            _mark_places,
            # Before the variances below them, and the quotients that they are made of.
            write_out("half_root"),
            write_out(*(_OF_ALL if precision else _RULES)),
            _without_places,
            lambda method, program: passes().transform_for_export_pipeline(program),
        ],
        lowering_recipe=lowering,
        executorch_backend_config=None
        if precision
        else ExecutorchBackendConfig(passes=[RoundedResults()]),
    )


def _write_out(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Writes out norms on which passes of ExecuTorch 1.5.1 fail, and numbers without a scale."""
    write_out_before_quantization(graph, "counted_back", "norm_order", "scattered_number")
    return graph


def _mark_places(method: str, program: ExportedProgram) -> ExportedProgram:
    """Marks stored places that count from the start, which stay as they are."""
    tensors = {**program.constants, **program.state_dict}
    stored = operators.stored(program)
    for node in program.graph.find_nodes(op="placeholder"):
        value = tensors.get(stored.get(node.name, ""))
        is_places = value is not None and value.dtype in (torch.int32, torch.int64)
        if is_places and not bool((value < 0).any()):
            node.meta[FROM_START] = True
    return program


def _without_places(method: str, program: ExportedProgram) -> ExportedProgram:
    from qualcomm_passes import without_places

    without_places(program.graph_module)
    return program


def load_libraries(ctx: RecipeContext) -> None:
    """Loads QNN's libraries, and leads upstream to them."""
    sdk = Sdk(ctx.label, "qualcomm", "Qualcomm's AI Engine Direct SDK (QNN)")
    folder = sdk.folder()
    # A wheel of Qualcomm's has them side by side; an SDK by platform.
    libraries = "" if (folder / _HTP).exists() else f"{_LIBRARIES}/"
    # Upstream's adaptor opens libraries by their bare names, which the loader knows once they are
    # loaded. They open others of theirs.
    sdk.preload(f"{libraries}{_HTP}")
    sdk.preload(f"{libraries}libQnnSystem.so")
    root = folder if libraries else _as_sdk(folder)
    # Upstream would download an SDK where this isn't set.
    os.environ["QNN_SDK_ROOT"] = str(root)
    sdk.imported("executorch.backends.qualcomm.qnn_preprocess")


def _as_sdk(folder: Path) -> Path:
    """A folder that has another one's libraries where an SDK has them."""
    root = Path(tempfile.mkdtemp(prefix="qnn"))
    libraries = root / _LIBRARIES
    libraries.parent.mkdir(parents=True)
    libraries.symlink_to(folder.absolute(), target_is_directory=True)
    return root


def _specs(chip: Any, are_shared: bool, *, has_floats: bool) -> Any:
    """Upstream's compile specs, for one method and for several."""
    import qualcomm_compiler
    from executorch.backends.qualcomm.utils.utils import (
        generate_htp_compiler_spec,
        generate_qnn_executorch_compiler_spec,
    )

    def specs(shares: bool) -> Any:
        backend = generate_htp_compiler_spec(use_fp16=has_floats, use_weight_sharing=shares)
        return generate_qnn_executorch_compiler_spec(soc_model=chip, backend_options=backend)

    return qualcomm_compiler.Specs(specs(False), specs(True), are_shared)


def _shares(ctx: RecipeContext, chip: Any, asked: bool | None) -> bool:
    """Returns whether methods share weights.

    Args:
      ctx: of the recipe.
      chip: of upstream's enumeration.
      asked: what the recipe's options say; None: nothing.

    Raises:
      BuildError: they are told to, and the chip cannot.
    """
    from executorch.backends.qualcomm.serialization.qc_schema import HtpArch
    from executorch.backends.qualcomm.utils.utils import _soc_info_table

    architecture = _soc_info_table[chip].htp_info.htp_arch
    can = architecture >= HtpArch.V73
    if asked and not can:
        raise BuildError(
            f'{ctx.label}: weight_sharing: got "true", and the HTP of {chip.name} '
            f"(v{architecture.value}) cannot share weights: it takes v73 or newer.",
            "Leave weight_sharing out, or name a newer chip.",
        )
    return (can if asked is None else asked) and not ctx.emulated


def _chip(ctx: RecipeContext, soc_model: str) -> Any:
    from executorch.backends.qualcomm.utils.utils import get_soc_to_chipset_map

    chips = get_soc_to_chipset_map()
    if soc_model not in chips:
        raise BuildError(
            f'{ctx.label}: soc_model: got "{soc_model}", expected a chip that the exporter\'s '
            f"ExecuTorch has: {', '.join(sorted(chips))}."
        )
    return chips[soc_model]


def quantizer(chip: Any, precision: str) -> Any:
    """Upstream's quantizer.

    Args:
      chip: a QcomChipset.
      precision: name of a QuantDtype.
    """
    import qualcomm_quantizer
    from executorch.backends.qualcomm.quantizer.quantizer import QuantDtype
    from torchao.quantization.pt2e import MinMaxObserver

    # Upstream switches it off on some vendors' CPUs only, and calibration would differ.
    torch.backends.mkldnn.set_flags(False)
    made = qualcomm_quantizer.Quantizer(soc_model=chip)
    made.set_default_quant_config(
        QuantDtype[precision],
        is_conv_per_channel=True,
        is_linear_per_channel=True,
        # By default, upstream's ranges are those of the first input, which others change by a
        # hundredth each.
        act_observer=MinMaxObserver,
    )
    return made
