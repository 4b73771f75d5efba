"""EtLower for rules that lower a model with a recipe, or take a lowering that exists."""

load("//rules:providers.bzl", "EtLoweredInfo", "EtModelInfo", "EtRecipeInfo")
load("//rules/private:exporter_action.bzl", "exporter_action")
load("//toolchains/python:paths.bzl", "first_repeated")

def lowering_attributes(mandatory, what):
    """Attributes of a rule that lowers.

    Args:
      mandatory: whether model and recipe must be given.
      what: what the rule makes, for the documentation.

    Returns:
      Dict for a rule's attrs.
    """
    return {
        "methods": attr.string_list(
            doc = "The model's methods that become part of the %s; default: all." % what,
        ),
        "model": attr.label(
            mandatory = mandatory,
            providers = [EtModelInfo],
            doc = "The et_model.",
        ),
        "recipe": attr.label(
            mandatory = mandatory,
            providers = [EtRecipeInfo],
            doc = "The et_recipe.",
        ),
    }

def lower(ctx, *, model, recipe, methods):
    """Declares the action EtLower.

    Args:
      ctx: rule context with the exporter toolchain.
      model: EtModelInfo.
      recipe: EtRecipeInfo.
      methods: list of strings; empty: all.

    Returns:
      EtLoweredInfo.
    """
    repeated = first_repeated(methods)
    if repeated:
        fail("%s: methods lists \"%s\" twice." % (ctx.label, repeated))
    directory = ctx.actions.declare_directory(ctx.label.name + ".lowered")
    facts = ctx.actions.declare_file(ctx.label.name + ".lowering.json")
    exporter_action(
        ctx,
        command = "lower",
        label = ctx.label,
        model = model,
        recipe = recipe,
        methods = methods,
        output = directory,
        facts = facts,
        mnemonic = "EtLower",
        progress_message = "Lowering %{label}",
    )
    return EtLoweredInfo(
        label = ctx.label,
        directory = directory,
        facts = facts,
        model = model,
        recipe = recipe,
        methods = methods,
    )

def same_lowering(lowered, model, recipe, methods):
    """Whether a lowering is what `lower` would make.

    Args:
      lowered: EtLoweredInfo.
      model: EtModelInfo.
      recipe: EtRecipeInfo.
      methods: list of strings.

    Returns:
      Bool.
    """
    return (
        lowered.model.label == model.label and
        lowered.recipe.label == recipe.label and
        sorted(lowered.methods) == sorted(methods)
    )
