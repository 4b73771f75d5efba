"""EtSize: what linking only the used parts of static libraries saves."""

load("//toolchains/exporter:linker_action.bzl", "linker_action")

def selection_size(ctx, *, binary, whole):
    """Compares two binaries of an app.

    Args:
      ctx: rule context with the exporter toolchain.
      binary: File: the app's.
      whole: File: the same with all that its static libraries register.

    Returns:
      File: JSON with both sizes in bytes.
    """
    output = ctx.actions.declare_file(ctx.label.name + ".size.json")
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--binary", binary)
    args.add("--whole", whole)
    args.add("--output", output)
    linker_action(
        ctx,
        module = "etbundle.selection_size",
        arguments = args,
        inputs = [binary, whole],
        outputs = [output],
        mnemonic = "EtSize",
        progress_message = "Measuring what %{label} leaves out",
    )
    return output
