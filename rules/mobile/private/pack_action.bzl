"""EtPackage: variants of an et_assets as packs of a store."""

load("//rules/private:providers.bzl", "EtAssetsInfo")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/python:paths.bzl", "pair_format")

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

PACK_ATTRIBUTES = {
    "assets": attr.label(
        doc = "The et_assets with the programs of an et_variants.",
        mandatory = True,
        providers = [EtAssetsInfo],
    ),
    "folder": attr.string(
        default = "executorch",
        doc = "Folder of the pack's assets that the app opens.",
    ),
}

def check_name(label, attribute, value):
    """Fails unless a text is a name that stores take.

    Args:
      label: Label of the target.
      attribute: its name.
      value: the text.
    """
    if not value or value[0] not in _LETTERS or value.strip(_LETTERS + "0123456789_"):
        fail(("%s: %s: got \"%s\", expected letters, digits and underscores, and a letter first, such as " +
              "\"assistant\".") % (label, attribute, value))

def pack_assets(ctx, *, module, flags, inputs = []):
    """Declares a folder with packs.

    Args:
      ctx: rule context with PACK_ATTRIBUTES and the exporter toolchain.
      module: that writes it.
      flags: dict of the module's flags beside those of all to strings or Files.
      inputs: list of Files among those.

    Returns:
      File: a folder with the target's name.
    """
    check_name(ctx.label, "folder", ctx.attr.folder)
    assets = ctx.attr.assets[EtAssetsInfo]
    if not assets.variants:
        fail(("%s: assets: got no variants in %s, expected an et_assets whose programs have an et_variants.") %
             (ctx.label, assets.label))
    output = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--folder", ctx.attr.folder)
    args.add("--manifest", assets.manifest)
    for entry in assets.files:
        args.add("--file", entry.file, format = pair_format(entry.path))
    for flag, value in flags.items():
        args.add(flag, value)
    args.add_all("--output", [output], expand_directories = False)
    linker_action(
        ctx,
        module = module,
        arguments = args,
        inputs = [entry.file for entry in assets.files] + [assets.manifest] + inputs,
        outputs = [output],
        mnemonic = "EtPackage",
        progress_message = "Packing %{output}",
    )
    return output
