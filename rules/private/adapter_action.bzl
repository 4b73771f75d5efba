"""EtStandIn and EtAdapt: an adapter's values apart from the lowering of its model."""

load("//rules:providers.bzl", "EtModelInfo")
load("//rules/private:exporter_action.bzl", "exporter_action")

_FIELDS = [
    "adapter",
    "args",
    "data",
    "entry_point",
    "exported",
    "label",
    "memory_mb",
    "methods",
    "original",
    "packages",
    "programs",
    "roots",
    "sources",
    "stand_ins",
]

def stand_ins(ctx, model):
    """Declares files of the same structure as those of an adapter, with values that never change.

    Args:
      ctx: context of a rule with the exporter toolchain.
      model: EtModelInfo with an adapter.

    Returns:
      List of struct(file, stand_in), for `lower`.
    """
    found = []
    for number, file in enumerate(model.adapter.files):
        output = ctx.actions.declare_file("%s.stand_in.%d.safetensors" % (ctx.label.name, number))
        exporter_action(
            ctx,
            command = "placeholder",
            label = ctx.label,
            model = _changed(
                model,
                args = {},
                data = depset([file]),
                entry_point = "",
                memory_mb = 0,
                packages = [],
                roots = [],
                sources = depset(),
            ),
            recipe = None,
            methods = [],
            output = output,
            mnemonic = "EtStandIn",
            progress_message = "Reading the structure of %{input}",
        )
        found.append(struct(file = file, stand_in = output))
    return found

def with_stand_ins(model, stand_ins):
    """A model as it is lowered for any values of its adapter.

    Args:
      model: EtModelInfo.
      stand_ins: of its adapter.

    Returns:
      EtModelInfo.
    """
    return _changed(model, data = model.adapter.rest, stand_ins = stand_ins)

def adapt(ctx, lowered):
    """Declares the directory with an adapter's values, for `link`.

    Args:
      ctx: context of a rule with the exporter toolchain.
      lowered: EtLoweredInfo that was made with stand-ins.

    Returns:
      File (tree artifact): adapter.json, blobs/<sha256>.
    """
    output = ctx.actions.declare_directory(ctx.label.name + ".adapter")
    model = lowered.model
    exporter_action(
        ctx,
        command = "adapt",
        label = ctx.label,
        # Of the model it reads as much as tells shapes.
        model = _changed(model, entry_point = model.adapter.entry_point, memory_mb = 0),
        recipe = None,
        methods = [],
        output = output,
        mnemonic = "EtAdapt",
        progress_message = "Adapting %{label}",
        stand_ins = lowered.stand_ins,
    )
    return output

def _changed(model, **changes):
    fields = {name: getattr(model, name) for name in _FIELDS}
    return EtModelInfo(**(fields | changes))
