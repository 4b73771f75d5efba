"""EtScan: what a library registers when it is loaded. It runs once for each library, however many apps link it."""

load("//toolchains/exporter:linker_action.bzl", "linker_action")

def read_registered(ctx, *, label, name, files, backends):
    """Declares what a library registers; its backends are checked.

    Args:
      ctx: context of a rule or aspect with the exporter toolchain.
      label: Label of the library, for messages.
      name: of the library; unique in the package of the target.
      files: list of Files: the library, or the objects and archives that it consists of.
      backends: list of strings: names of backends that it has to register.

    Returns:
      File: its operators and backends, a line each.
    """
    output = ctx.actions.declare_file(name + ".registered")
    args = ctx.actions.args()
    args.add("--label", label)
    args.add_all(files, before_each = "--library")
    args.add_all(backends, before_each = "--backend")
    args.add("--output", output)
    linker_action(
        ctx,
        module = "etbundle.scan",
        arguments = args,
        inputs = files,
        outputs = [output],
        mnemonic = "EtScan",
        progress_message = "Reading what %{label} registers",
    )
    return output
