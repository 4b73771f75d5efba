"""EtPlaceholder and EtAdapt: an adapter's values apart from the lowering of its model."""

load("//rules/private:exporter_action.bzl", "exporter_action")
load("//rules/private:lowerable.bzl", "LowerableInfo", "changed")

def placeholders(ctx, label, model):
    """Declares files of the same structure as those of an adapter, with values that never change.

    Args:
      ctx: context of a rule with the exporter toolchain.
      label: Label of the target that is lowered.
      model: LowerableInfo with an adapter.

    Returns:
      List of struct(file, placeholder), for `lower`.
    """
    pairs = []
    for number, file in enumerate(model.adapter.files):
        output = ctx.actions.declare_file("%s.placeholder.%d.safetensors" % (label.name, number))
        exporter_action(
            ctx,
            command = "placeholder",
            label = label,
            model = LowerableInfo(label = model.label, data = depset([file])),
            recipe = None,
            methods = [],
            output = output,
            mnemonic = "EtPlaceholder",
            progress_message = "Reading the structure of %{input}",
        )
        pairs.append(struct(file = file, placeholder = output))
    return pairs

def with_placeholders(model, placeholders):
    """A model as it is lowered for any values of its adapter.

    Args:
      model: LowerableInfo.
      placeholders: of its adapter.

    Returns:
      LowerableInfo.
    """
    return changed(model, data = model.adapter.rest, placeholders = placeholders)

def adapt(ctx, label, model, placeholders):
    """Declares the directory with an adapter's values, for `link`.

    Args:
      ctx: context of a rule with the exporter toolchain.
      label: Label of the target that is lowered.
      model: LowerableInfo with an adapter.
      placeholders: what `placeholders` returned.

    Returns:
      File (tree artifact): manifest.json, placeholders.txt, blobs/<sha256>.
    """
    output = ctx.actions.declare_directory(label.name + ".adapter")
    exporter_action(
        ctx,
        command = "adapt",
        label = label,
        # Of the model it reads as much as tells shapes.
        model = changed(model, entry_point = model.adapter.entry_point, memory_mb = 0),
        recipe = None,
        methods = [],
        output = output,
        mnemonic = "EtAdapt",
        progress_message = "Adapting %{label}",
        placeholders = placeholders,
    )
    return output
