"""EtScan: what an older runtime's version has. Bundled versions are recorded in inventories.json."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/older:older_library.bzl", "EtOlderLibraryInfo", "older_transition")

def read_inventory(ctx, version, older):
    """Declares what a version has.

    Args:
      ctx: rule context with the exporter toolchain.
      version: string: of ExecuTorch.
      older: EtOlderLibraryInfo of that version.

    Returns:
      File (JSON).
    """
    output = ctx.actions.declare_file("%s.inventories/%s.json" % (ctx.label.name, version))
    args = ctx.actions.args()
    args.add("--version", version)
    args.add_all(older.runtime, before_each = "--library")
    args.add_all(older.schema, before_each = "--schema")
    args.add("--output", output)
    linker_action(
        ctx,
        module = "etbundle.inventory",
        arguments = args,
        inputs = older.runtime + older.schema,
        outputs = [output],
        mnemonic = "EtScan",
        progress_message = "Reading what ExecuTorch %s has" % version,
    )
    return output

def _inventories_impl(ctx):
    libraries = ctx.split_attr._libraries
    return [DefaultInfo(files = depset([
        read_inventory(ctx, version, libraries[version][EtOlderLibraryInfo])
        for version in sorted(libraries)
    ]))]

inventories = rule(
    implementation = _inventories_impl,
    doc = "The inventories of older runtimes, a file each.",
    attrs = {
        "runtimes": attr.string_list(mandatory = True, doc = "Versions of ExecuTorch."),
        "_libraries": attr.label(cfg = older_transition, default = "//toolchains/older:library"),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
