"""EtScan: what an older runtime's version has. Bundled versions are recorded in inventories.json."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/older:older_runner.bzl", "EtOlderRunnerInfo")
load("//toolchains/runtime:older_versions.bzl", "older_transition")

def read_inventory(ctx, version, runner):
    """Declares what a version has.

    Args:
      ctx: rule context with the exporter toolchain.
      version: string: of ExecuTorch.
      runner: EtOlderRunnerInfo of that version.

    Returns:
      File (JSON).
    """
    output = ctx.actions.declare_file("%s.inventories/%s.json" % (ctx.label.name, version))
    args = ctx.actions.args()
    args.add("--version", version)
    args.add_all(runner.libraries, before_each = "--library")
    args.add_all(runner.schema, before_each = "--schema")
    args.add("--output", output)
    linker_action(
        ctx,
        module = "etbundle.inventory",
        arguments = args,
        inputs = runner.libraries + runner.schema,
        outputs = [output],
        mnemonic = "EtScan",
        progress_message = "Reading what ExecuTorch %s has" % version,
    )
    return output

def _inventories_impl(ctx):
    runners = ctx.split_attr._runners
    return [DefaultInfo(files = depset([
        read_inventory(ctx, version, runners[version][EtOlderRunnerInfo])
        for version in sorted(runners)
    ]))]

inventories = rule(
    implementation = _inventories_impl,
    doc = "The inventories of older runtimes, a file each.",
    attrs = {
        "runtimes": attr.string_list(mandatory = True, doc = "Versions of ExecuTorch."),
        "_runners": attr.label(cfg = older_transition, default = "//toolchains/older:runner"),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
