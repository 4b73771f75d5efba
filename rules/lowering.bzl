"""et_lowering: a model lowered once, for a program and for its shared data."""

load("//rules:providers.bzl", "EtLoweredInfo")
load("//rules/private:target_lowering.bzl", "declare_lowering")

def _et_lowering_impl(ctx):
    lowered = ctx.attr.lowering[EtLoweredInfo]
    return [
        DefaultInfo(files = depset([lowered.directory])),
        OutputGroupInfo(lowered = depset([lowered.directory])),
        lowered,
    ]

et_lowering_rule = rule(
    implementation = _et_lowering_impl,
    doc = "A lowered program, in the configuration of tools. `et_lowering` declares it, and its doc describes it.",
    attrs = {
        "lowering": attr.label(
            cfg = "exec",
            doc = "Set by the macro.",
            mandatory = True,
            providers = [EtLoweredInfo],
        ),
    },
    provides = [EtLoweredInfo],
)

def et_lowering(
        *,
        name,
        model,
        recipe,
        methods = None,
        quantize = None,
        trained_checkpoint = None,
        calibration = None,
        **kwargs):
    """A model that is lowered with a recipe, but not yet linked.

    Lower a base program and its shared data once:

    ```starlark
    et_lowering(name = "base", model = ":llama", recipe = ":int4")
    et_shared_data(name = "foundation", lowerings = [":base"])
    et_program(name = "llama", lowering = ":base", shared_data = [":foundation"])
    ```

    Output: a directory with the program's tables, one file for each weight (named by its sha256) and an
    index. It is the same for all configurations of a build, such as `-c opt` and `--platforms`.

    Args:
      name: of the lowering.
      model: label of the et_model.
      recipe: label of the et_recipe.
      methods: methods of the model to include; default: all.
      quantize: "none" skips the recipe's quantization, for a model that is already quantized. "qat" quantizes
        the module that `trained_checkpoint` is the state of. Default: "recipe".
      trained_checkpoint: with "qat": label of the file (.safetensors, .pt or .pth) with the state_dict of the module
        that `ettune.qat.prepare` made for this model and recipe, and that was trained.
      calibration: label of a .safetensors file with inputs for static quantization; default: the model's own.
        Tensors are named by position ("0") or by method and position ("prefill/0"). Their first dimension
        counts samples.
      **kwargs: the attributes of all rules.
    """
    lowering = declare_lowering(
        name,
        kwargs,
        calibration = calibration,
        methods = methods,
        model = model,
        quantize = quantize,
        recipe = recipe,
        trained_checkpoint = trained_checkpoint,
    )
    et_lowering_rule(name = name, lowering = lowering, **kwargs)
