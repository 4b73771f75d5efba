"""EtExpect: what the eager model gives, once for all programs and tests of a model.

The action belongs to the model, and its inputs are the model's alone: programs of all recipes, their tests with
whatever tolerances, and bundled programs have the same one. It runs only where one of these asks for its output.
"""

load("//rules/private:exporter_action.bzl", "exporter_action")
load("//rules/private:lowerable.bzl", "changed")

def with_expected(ctx, model):
    """Declares the action EtExpect.

    Args:
      ctx: rule context with the exporter toolchain.
      model: LowerableInfo.

    Returns:
      The LowerableInfo with `expected`.
    """

    # The ending is that of a tensors' file, which the runner tells its inputs by.
    expected = ctx.actions.declare_file(ctx.label.name + ".expected.safetensors")
    exporter_action(
        ctx,
        command = "expect",
        label = ctx.label,
        model = model,
        recipe = None,
        methods = [],
        output = expected,
        mnemonic = "EtExpect",
        progress_message = "Running the eager model %{label}",
    )
    return changed(model, expected = expected)
