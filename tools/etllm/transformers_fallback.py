"""Checkpoints of families that et_llm does not have, by the code of transformers.

`etllm.transformers` makes the model, as for et_transformers with the task text-generation; this
module says in its words what the YAML file asks for. What the file asks of et_llm's own decoder,
such as a quantized embedding, is an error: transformers' code has nothing that it would change.
"""

from __future__ import annotations

import dataclasses
import re

from etbuild import BuildError, ModelContext, ModelSpec, Options

from etllm import lora
from etllm.families import FAMILIES
from etllm.json_values import JsonValues
from etllm.settings import Settings

# The argument of a model that may be built this way.
OPTION = "other_families"
_CONFIG = "config.json"
# Keys that say what a program holds, whosever code makes the model, and those of recipes.
_APPLY = re.compile(
    r"backend\..*|base\.(checkpoint|metadata)|export\.max_(context|seq)_length|"
    r"model\.(dtype_override|enable_dynamic_shape|use_kv_cache)|"
    r"quantization\.(group_size|pt2e_quantize|qmode|quantize_scope|use_hqq)"
)


def family(ctx: ModelContext) -> str:
    """The `model_type` of a checkpoint that transformers' code is for; "": et_llm's own is.

    Args:
      ctx: the checkpoint's files; args: `other_families`.

    Raises:
      BuildError: config.json is malformed.
    """
    if not Options(ctx.args, ctx.label).boolean(OPTION, False):
        return ""
    configs = [name for name in ctx.files if name.rsplit("/", 1)[-1] == _CONFIG]
    if len(configs) != 1:
        return ""
    kind = JsonValues.read(ctx.files[configs[0]], configs[0]).values.get("model_type")
    return kind if isinstance(kind, str) and kind not in FAMILIES else ""


def build(ctx: ModelContext, kind: str, settings: Settings) -> ModelSpec:
    """The model as transformers exports it.

    Args:
      ctx: as for `entry.build`.
      kind: the `model_type`.
      settings: the YAML file.

    Raises:
      BuildError: the file has a key that changes nothing here, the target has adapters or cuts off
        layers, or transformers cannot export the model: then with its reason.
    """
    _check(ctx, kind, settings)
    from etllm.transformers import entry

    export = settings.llm.export
    args = {
        "task": "text-generation",
        "max_length": str(export.max_context_length),
        "prefill_length": str(min(export.max_seq_length, export.max_context_length)),
    }
    # Without the key transformers' road decides: mixtures of experts read single tokens.
    if settings.file.has("model.enable_dynamic_shape"):
        args["dynamic"] = str(settings.llm.model.enable_dynamic_shape).lower()
    files = {name: path for name, path in ctx.files.items() if name != settings.file.name}
    spec = entry.build(ModelContext(args, files, ctx.label))
    note = (
        f'The family "{kind}" is not one of et_llm\'s own: the model is made by the code of '
        "transformers, as et_transformers does."
    )
    constants = {**spec.constant_methods, **settings.metadata()}
    settings.check_end(constants)
    return dataclasses.replace(spec, constant_methods=constants, notes=(*spec.notes, note))


def _check(ctx: ModelContext, kind: str, settings: Settings) -> None:
    reason = f'nothing: the checkpoint is of the family "{kind}", which transformers\' code makes'
    for key in sorted(settings.file.lines, key=lambda key: settings.file.lines[key]):
        inside = any(other.startswith(key + ".") for other in settings.file.lines)
        if not inside and not _APPLY.fullmatch(key):
            raise settings.error(key, reason, "Remove the key.")
    if settings.llm.model.dtype_override.value != "fp32":
        raise settings.error("model.dtype_override", f"fp32, or {reason}")
    if Options(ctx.args, ctx.label).integer("layers", 0):
        raise BuildError(
            f"{ctx.label}: layers: got {ctx.args['layers']}, expected {reason}.",
            "Remove layers from the target.",
        )
    adapters = sorted(name for name in ctx.files if lora.is_given([name]))
    if adapters:
        raise BuildError(
            f"{ctx.label}: adapters: got {adapters[0]}, expected {reason}.",
            "Merge the adapter into the checkpoint, and remove it from the target.",
        )
