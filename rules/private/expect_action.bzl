"""EtExpect: what the eager model gives, once for all programs and tests of a model.

The action belongs to the model, and its inputs are the model's alone: programs of all recipes, their tests with
whatever tolerances, and bundled programs have the same one. It runs only where one of these asks for its output.
"""

load("//rules/private:exporter_action.bzl", "exporter_action")
load("//rules/private:given_inputs.bzl", "input_flags")
load("//rules/private:lowerable.bzl", "changed")

def with_expected(ctx, model, packages = [], instead = False):
    """Declares the action EtExpect.

    Args:
      ctx: rule context with the exporter toolchain.
      model: LowerableInfo.
      packages: list of EtPackagesInfo that its test inputs need.
      instead: whether these inputs replace those of the model's code.

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
        flags = input_flags(model.test_inputs, model.preprocessing) +
                ([("%s", "--only_test_inputs")] if instead else []),
        packages = packages,
        output = expected,
        mnemonic = "EtExpect",
        progress_message = "Running the eager model %{label}",
    )
    return changed(model, expected = expected)
