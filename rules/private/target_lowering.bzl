"""target_lowering: the lowering of a target, in the configuration of tools.

A lowering does not depend on what is built for: a `.pte` runs on every device of its backends. So what lowers
is a target of its own, `<name>.lowering`, and whoever uses it does so through an attribute with `cfg = "exec"`.
Configurations of tools ignore `-c`, `--platforms`, `--copt` and `--features`, and transitions, so one lowering
serves them all; links stay in the configuration of the build.

The invariant: no edge leads to a `<name>.lowering` but with `cfg = "exec"`. It has the tag `manual`, since a
pattern such as `//...` would build it in the target configuration, and so lower everything twice. An attribute
without `cfg` would do the same.
"""

load("//rules/private:adapter_action.bzl", "adapt", "placeholders")
load("//rules/private:exporter_action.bzl", "LOWERING_FLAG")
load("//rules/private:lower_action.bzl", "lower", "with_adapter")
load("//rules/private:providers.bzl", "EtLoweredInfo", "EtModelInfo", "EtRecipeInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

# What to lower, and how: et_lowering documents them, and other macros with a lowering of their own take them, too.
_SETTINGS = ("model", "recipe", "methods", "quantize", "trained_checkpoint", "calibration")

# Attributes of all rules that a target hands on to its lowering: where it runs, and who may use it.
# Not target_compatible_with, which says where the program runs.
_COMMON = ("exec_compatible_with", "exec_properties", "testonly")

def _given(ctx):
    """Names of attributes that say what to lower and how, and that are given."""
    return [name for name in _SETTINGS if getattr(ctx.attr, name) and getattr(ctx.attr, name) != "recipe"]

def _check_calibration(ctx, label):
    """One file: Bazel's own errors would name an attribute of this rule, or no way out."""
    got = ""
    if ctx.attr.listed_calibrations >= 0:
        got = "a list of %d" % ctx.attr.listed_calibrations
    elif ctx.attr.calibration and ctx.file.calibration.extension != "safetensors":
        got = ctx.file.calibration.basename
    if got:
        fail(("%s: calibration: got %s, expected the label of one .safetensors file. Write it with " +
              "safetensors.torch.save_file({\"0\": torch.stack(samples)}, \"samples.safetensors\"), or list files of " +
              "other kinds in data of the et_model and return inputs from ModelSpec(calibration = …).") %
             (label, got))

def _target_lowering_impl(ctx):
    label = ctx.label.same_package_label(ctx.attr.of)
    _check_calibration(ctx, label)
    if ctx.attr.lowering:
        if _given(ctx):
            fail("%s: a lowering has its own model, recipe and methods: got %s. Remove what lowering has." %
                 (label, " and ".join(_given(ctx))))
        lowered = ctx.attr.lowering[EtLoweredInfo]
    else:
        missing = [n for n in ("model", "recipe") if not getattr(ctx.attr, n)]
        if missing:
            fail("%s: %s is missing. Give a model and a recipe, or a lowering." % (label, " and ".join(missing)))
        lowered = _lowered(ctx, label, ctx.attr.model[EtModelInfo], ctx.attr.recipe[EtRecipeInfo])
    return [DefaultInfo(files = depset([lowered.directory])), lowered]

def _lowered(ctx, label, model, recipe):
    """The lowering of a model; of one whose adapter's values may change, with placeholders."""
    lowerable = model.lowerable
    if not lowerable.adapter or ctx.attr.adapter_data != "by_name":
        return lower(ctx, label = label, model = model, recipe = recipe)
    pairs = placeholders(ctx, label, lowerable)
    lowered = lower(ctx, label = label, model = model, recipe = recipe, placeholders = pairs)
    return with_adapter(
        lowered,
        values = adapt(ctx, label, lowerable, pairs),
        # With the adapter's own values, for bundled programs.
        whole = lower(ctx, label = label, model = model, recipe = recipe, suffix = ".embedded").directory,
    )

target_lowering = rule(
    implementation = _target_lowering_impl,
    doc = "The lowering of another target. `declare_lowering` declares it.",
    attrs = LOWERING_FLAG | {
        "adapter_data": attr.string(
            default = "by_content",
            values = ["by_content", "by_name"],
            doc = "\"by_name\": a model with an adapter is lowered with placeholders of its values.",
        ),
        "calibration": attr.label(allow_single_file = True, doc = "Inputs for static quantization."),
        "listed_calibrations": attr.int(
            default = -1,
            doc = "Number of labels given for `calibration` instead of one, for the error.",
        ),
        "lowering": attr.label(
            providers = [EtLoweredInfo],
            doc = "Instead of model and recipe: a lowered program.",
        ),
        "methods": attr.string_list(doc = "The model's methods that are lowered; empty: all."),
        "model": attr.label(providers = [EtModelInfo], doc = "The et_model, or an et_exported_program of it."),
        "of": attr.string(mandatory = True, doc = "Name of the target that the lowering is of, for messages."),
        "quantize": attr.string(
            default = "recipe",
            values = ["recipe", "none", "qat"],
            doc = "\"none\": the recipe's quantization is left out. \"qat\": with the state of trained_checkpoint.",
        ),
        "recipe": attr.label(providers = [EtRecipeInfo], doc = "The et_recipe."),
        "trained_checkpoint": attr.label(
            allow_single_file = [".safetensors", ".pt", ".pth"],
            doc = "State of the module that ettune.qat.prepare made, after training.",
        ),
    },
    provides = [EtLoweredInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)

def for_exec(attributes):
    """Attributes of a target that a target of its own in the configuration of tools has, too.

    Args:
      attributes: dict: the target's.

    Returns:
      Dict, with the tag manual.
    """
    tags = [tag for tag in attributes.get("tags") or [] if tag != "manual"] + ["manual"]
    common = {key: attributes[key] for key in _COMMON if attributes.get(key) != None}
    return common | {"tags": tags, "visibility": ["//visibility:private"]}

def has_settings(attributes):
    """Returns whether a macro was told what to lower.

    Args:
      attributes: dict: what the macro was called with.
    """
    return any([attributes.get(name) != None for name in _SETTINGS])

def declare_lowering(name, attributes, **lowering):
    """Declares the lowering of a target.

    Args:
      name: of the target.
      attributes: dict: what the target's macro was called with. The settings are taken out; the lowering has them,
        and what concerns it of the attributes of all rules.
      **lowering: other attributes of `target_lowering`; None: the default.

    Returns:
      The lowering's label, for an attribute with `cfg = "exec"`.
    """
    lowering |= {setting: attributes.pop(setting) for setting in _SETTINGS if setting in attributes}
    if type(lowering.get("calibration")) == "list":
        lowering["listed_calibrations"] = len(lowering.pop("calibration"))
    target_lowering(
        name = name + ".lowering",
        of = name,
        **(for_exec(attributes) | {key: value for key, value in lowering.items() if value != None})
    )
    return ":%s.lowering" % name
