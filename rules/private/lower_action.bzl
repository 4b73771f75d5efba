"""EtLower for rules that lower a model with a recipe, or take a lowering that exists."""

load("//rules/private:adapter_action.bzl", "with_placeholders")
load("//rules/private:exporter_action.bzl", "LOWERING_FLAG", "exporter_action")
load("//rules/private:providers.bzl", "EtLoweredInfo", "EtModelInfo", "EtRecipeInfo")
load("//toolchains/python:paths.bzl", "first_repeated")

def lowering_attributes(mandatory, what):
    """Attributes of a rule that lowers.

    Args:
      mandatory: whether model and recipe must be given.
      what: what the rule makes, for the documentation.

    Returns:
      Dict for a rule's attrs.
    """
    return LOWERING_FLAG | {
        "calibration": attr.label(
            allow_single_file = [".safetensors"],
            doc = "Inputs for recipes that quantize statically, instead of the model's own: tensors " +
                  "named by the position of an input (\"0\") or by method and position (\"prefill/0\"), whose " +
                  "first dimension counts samples.",
        ),
        "methods": attr.string_list(
            doc = "The model's methods that become part of the %s; default: all." % what,
        ),
        "model": attr.label(
            mandatory = mandatory,
            providers = [EtModelInfo],
            doc = "The et_model, or an et_exported_program of it.",
        ),
        "quantize": attr.string(
            default = "recipe",
            values = ["recipe", "none"],
            doc = "\"none\": the recipe's quantization is left out, for a model that was quantized or " +
                  "trained with quantization (QAT) before.",
        ),
        "recipe": attr.label(
            mandatory = mandatory,
            providers = [EtRecipeInfo],
            doc = "The et_recipe.",
        ),
    }

def lower(ctx, *, model, recipe, placeholders = [], suffix = ""):
    """Declares the action EtLower.

    Args:
      ctx: context of a rule with `lowering_attributes` and the exporter toolchain.
      model: EtModelInfo.
      recipe: EtRecipeInfo.
      placeholders: of the model's adapter (adapter_action.bzl); none: it is lowered with its own values.
      suffix: of the outputs' names, where a target lowers twice.

    Returns:
      EtLoweredInfo.
    """
    methods, settings = ctx.attr.methods, _settings(ctx)
    repeated = first_repeated(methods)
    if repeated:
        fail("%s: methods lists \"%s\" twice. Remove one of them." % (ctx.label, repeated))
    directory = ctx.actions.declare_directory(ctx.label.name + suffix + ".lowered")
    measurements = ctx.actions.declare_file(ctx.label.name + suffix + ".timings.json")
    exporter_action(
        ctx,
        command = "lower",
        label = ctx.label,
        model = with_placeholders(model.lowerable, placeholders) if placeholders else model.lowerable,
        recipe = recipe,
        methods = methods,
        settings = settings,
        output = directory,
        measurements = measurements,
        mnemonic = "EtLower",
        progress_message = "Lowering %{label}",
    )
    return EtLoweredInfo(
        label = ctx.label,
        directory = directory,
        measurements = measurements,
        model = model,
        recipe = recipe,
        methods = methods,
        settings = settings,
        placeholders = placeholders,
    )

def given_for_lowering(ctx):
    """Names of attributes that say how to lower, beside model and recipe, and that are given.

    Args:
      ctx: context of a rule with `lowering_attributes`.

    Returns:
      List of strings.
    """
    given = [n for n in ("calibration", "methods") if getattr(ctx.attr, n)]
    return given + (["quantize"] if ctx.attr.quantize != "recipe" else [])

def _settings(ctx):
    if ctx.attr.quantize == "none" and ctx.attr.calibration:
        fail("%s: calibration has no effect with quantize = \"none\". Remove one of them." %
             ctx.label)
    return struct(calibration = ctx.file.calibration, quantize = ctx.attr.quantize)

def same_lowering(ctx, *, lowered, model, recipe):
    """Whether a lowering is what `lower` would make.

    Args:
      ctx: context of a rule with `lowering_attributes`.
      lowered: EtLoweredInfo.
      model: EtModelInfo.
      recipe: EtRecipeInfo.

    Returns:
      Bool.
    """
    return (
        lowered.model.label == model.label and
        lowered.recipe.label == recipe.label and
        sorted(lowered.methods) == sorted(ctx.attr.methods) and
        lowered.settings == _settings(ctx)
    )
