"""et_trained_checkpoint: a model trained for its quantization."""

load("//rules:providers.bzl", "EtModelInfo", "EtRecipeInfo")
load("//rules/private:exporter_action.bzl", "LOWERING_FLAG", "exporter_action")
load("//rules/private:target_lowering.bzl", "for_exec")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _target_training_impl(ctx):
    label = ctx.label.same_package_label(ctx.attr.of)
    model = ctx.attr.model[EtModelInfo].lowerable
    checkpoint = ctx.actions.declare_file(label.name + ".safetensors")
    exporter_action(
        ctx,
        command = "train",
        label = label,
        model = model,
        recipe = ctx.attr.recipe[EtRecipeInfo],
        methods = [],
        output = checkpoint,
        settings = struct(calibration = None, quantize = "qat", trained_checkpoint = None),
        flags = [("--training=%s", ctx.attr.training)],
        mnemonic = "EtTrain",
        progress_message = "Training %{label}",
    )
    return [DefaultInfo(files = depset([checkpoint]))]

_target_training = rule(
    implementation = _target_training_impl,
    attrs = LOWERING_FLAG | {
        "model": attr.label(mandatory = True, providers = [EtModelInfo]),
        "of": attr.string(mandatory = True, doc = "Name of the target that trains, for messages."),
        "recipe": attr.label(mandatory = True, providers = [EtRecipeInfo]),
        "training": attr.string(mandatory = True),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)

def _et_trained_checkpoint_impl(ctx):
    return [DefaultInfo(files = depset([ctx.file.checkpoint]))]

et_trained_checkpoint_rule = rule(
    implementation = _et_trained_checkpoint_impl,
    doc = "A trained checkpoint, in the configuration of tools. `et_trained_checkpoint` declares it.",
    attrs = {
        "checkpoint": attr.label(
            allow_single_file = True,
            # As lowerings are: target_lowering.bzl says why.
            cfg = "exec",
            doc = "Set by the macro.",
            mandatory = True,
        ),
    },
)

def et_trained_checkpoint(*, name, model, recipe, training, **kwargs):
    """A model that a build trains for its quantization (QAT), on one core and without a network.

    ```starlark
    et_trained_checkpoint(
        name = "trained",
        model = ":net_and_training",
        recipe = ":int4",
        training = "net.train:train",
    )
    et_program(name = "net_int4", model = ":net", quantize = "qat", recipe = ":int4", trained_checkpoint = ":trained")
    ```

    ```python
    def train(module, ctx):
        optimizer = torch.optim.Adam(module.parameters())
        for inputs, targets in batches(ctx.file("data.safetensors")):
            optimizer.zero_grad()
            loss(module(inputs), targets).backward()
            optimizer.step()
    ```

    Output: `<name>.safetensors`. A training that takes long or a GPU is a script of your own, with
    `ettune.qat.prepare`.

    Args:
      name: of the checkpoint.
      model: label of the et_model, whose sources have the function that trains. Another et_model with the same
        module may be lowered, so that a change of the training alone lowers nothing.
      recipe: label of the et_recipe that the program will have.
      training: "module:function": called with the module that `ettune.qat.prepare` makes, and with the model's
        `etbuild.ModelContext` if it takes a second argument. It changes the module. The random seed is 0 before.
      **kwargs: the attributes of all rules.
    """
    _target_training(
        name = name + ".training",
        model = model,
        of = name,
        recipe = recipe,
        training = training,
        **for_exec(kwargs)
    )
    et_trained_checkpoint_rule(name = name, checkpoint = ":%s.training" % name, **kwargs)
