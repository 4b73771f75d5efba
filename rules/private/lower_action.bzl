"""EtLower: a model and a recipe as a lowered program."""

load("//rules/private:adapter_action.bzl", "with_placeholders")
load("//rules/private:emulation.bzl", "not_emulated")
load("//rules/private:exporter_action.bzl", "exporter_action")
load("//rules/private:providers.bzl", "EtLoweredInfo")
load("//toolchains/python:paths.bzl", "first_repeated")

def lower(ctx, *, label, model, recipe, placeholders = [], suffix = ""):
    """Declares the action EtLower.

    Args:
      ctx: context of a `target_lowering`.
      label: Label of the target that the lowering is of.
      model: EtModelInfo.
      recipe: EtRecipeInfo.
      placeholders: of the model's adapter (adapter_action.bzl); none: it is lowered with its own values.
      suffix: of the outputs' names, where a target lowers twice.

    Returns:
      EtLoweredInfo, without an adapter.
    """
    methods, settings = ctx.attr.methods, _settings(ctx, label)
    repeated = first_repeated(methods)
    if repeated:
        fail("%s: methods lists \"%s\" twice. Remove one of them." % (label, repeated))
    directory = ctx.actions.declare_directory(label.name + suffix + ".lowered")
    measurements = ctx.actions.declare_file(label.name + suffix + ".timings.json")
    is_twin = bool(not_emulated(recipe, methods))
    exporter_action(
        ctx,
        command = "lower",
        label = label,
        model = with_placeholders(model.lowerable, placeholders) if placeholders else model.lowerable,
        recipe = recipe,
        methods = methods,
        settings = settings,
        output = directory,
        measurements = measurements,
        flags = [("%s", "--emulated")] if is_twin else [],
        mnemonic = "EtLower",
        progress_message = "Lowering %{label}" + (" once more, to run here" if is_twin else ""),
    )
    return EtLoweredInfo(
        label = label,
        directory = directory,
        measurements = measurements,
        model = model,
        recipe = recipe,
        methods = methods,
        settings = settings,
        adapter = None,
    )

def with_adapter(lowered, *, values, whole):
    """A lowering with placeholders, and what belongs to its adapter.

    Args:
      lowered: EtLoweredInfo.
      values: File: directory of EtAdapt.
      whole: File: directory of a lowering with the adapter's own values.

    Returns:
      EtLoweredInfo.
    """
    return EtLoweredInfo(
        label = lowered.label,
        directory = lowered.directory,
        measurements = lowered.measurements,
        model = lowered.model,
        recipe = lowered.recipe,
        methods = lowered.methods,
        settings = lowered.settings,
        adapter = struct(values = values, whole = whole),
    )

def _settings(ctx, label):
    if ctx.attr.quantize == "none" and ctx.attr.calibration:
        fail("%s: calibration has no effect with quantize = \"none\". Remove one of them." % label)
    if ctx.attr.quantize == "qat" and not ctx.attr.trained_checkpoint:
        fail(("%s: trained_checkpoint: got none, expected one with quantize = \"qat\". Give the state_dict of the " +
              "module that ettune.qat.prepare made, after training.") % label)
    if ctx.attr.trained_checkpoint and ctx.attr.quantize != "qat":
        fail("%s: trained_checkpoint has no effect with quantize = \"%s\". Set quantize = \"qat\", or remove it." %
             (label, ctx.attr.quantize))
    if ctx.attr.quantize == "qat" and ctx.attr.calibration:
        fail("%s: calibration has no effect with quantize = \"qat\". Remove one of them." % label)
    return struct(
        calibration = ctx.file.calibration,
        quantize = ctx.attr.quantize,
        trained_checkpoint = ctx.file.trained_checkpoint,
    )

def same_lowering(one, other):
    """Tells whether two lowerings have the same inputs, so that one of them is enough.

    Args:
      one: EtLoweredInfo.
      other: EtLoweredInfo.

    Returns:
      Bool.
    """
    return (
        one.model.label == other.model.label and
        one.recipe.label == other.recipe.label and
        sorted(one.methods) == sorted(other.methods) and
        one.settings == other.settings
    )
