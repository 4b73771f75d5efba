"""et_android_ai_pack: variants as an AI pack of Play for On-device AI."""

load("//rules:providers.bzl", "EtAssetsInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/python:paths.bzl", "pair_format")

def _et_android_ai_pack_impl(ctx):
    pack = ctx.attr.pack or ctx.label.name
    for name, value in {"folder": ctx.attr.folder, "pack": pack}.items():
        if not _is_name(value):
            fail(("%s: %s: got \"%s\", expected letters, digits and underscores, and a letter first, such as " +
                  "\"assistant\".") % (ctx.label, name, value))
    assets = ctx.attr.assets[EtAssetsInfo]
    if not assets.variants:
        fail(("%s: assets: got no variants in %s, expected an et_assets whose programs have an et_variants.") %
             (ctx.label, assets.label))
    output = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--pack", pack)
    args.add("--folder", ctx.attr.folder)
    args.add("--manifest", assets.manifest)
    for entry in assets.files:
        args.add("--file", entry.file, format = pair_format(entry.path))
    args.add("--devices", ctx.file.devices)
    args.add_all("--output", [output], expand_directories = False)
    linker_action(
        ctx,
        module = "etbundle.mobile.ai_pack",
        arguments = args,
        inputs = [entry.file for entry in assets.files] + [assets.manifest, ctx.file.devices],
        outputs = [output],
        mnemonic = "EtPackage",
        progress_message = "Packing %{output}",
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

def _is_name(text):
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    return bool(text) and text[0] in letters and not text.strip(letters + "0123456789_")

et_android_ai_pack = rule(
    implementation = _et_android_ai_pack_impl,
    doc = """An AI pack of Play for On-device AI: one upload, and each phone downloads the files of its variant.

```starlark
et_assets(name = "assistant_files", programs = [":assistant"])       # an et_variants
et_android_ai_pack(name = "assistant_pack", assets = ":assistant_files")
```

Output, a folder:

    device_targeting_configuration.xml                          groups of devices, the best first
    <pack>/src/main/assets/<folder>#group_<program>/            manifest.json, programs/, data/ of that group
    <pack>/src/main/assets/<folder>#group_other/                those of all other devices

Put `<pack>` beside the app's module, with a `build.gradle` that applies `com.android.ai-pack` and names the delivery;
the app's own `build.gradle` takes the XML file as `bundle.deviceTargetingConfig`, with `deviceGroup { enableSplit =
true; defaultGroup = "other" }`. Play takes `#group_…` off, so the app opens `<folder>` on each device, and its interface
chooses among the programs that are there.

Play selects by memory, chip and name. So

- `ram_gb = 8` is more than 6 GiB and at most 8 GiB, as devices report less than they are sold with;
- `soc` and what follows from a chip in the table of devices (`features`) become a list of chips, which Play knows
  from Android 12 on. Phones of the table without a chip are named instead, if it has their `play` names;
- what Play cannot tell (`os_level`, `vulkan`, `qnn`) does not divide devices. They get the next variants, too.

Each group also has the last program, which runs everywhere, for a device on which the better one does not load. With
several et_variants in the assets, each combination is a group.

The build fails if a group's files are larger than Play takes for a pack on a device, 1.5 GB after compression. An
app with all its packs may have 4 GB there.
""",
    attrs = {
        "assets": attr.label(
            doc = "The et_assets with the programs of an et_variants.",
            mandatory = True,
            providers = [EtAssetsInfo],
        ),
        "devices": attr.label(
            allow_single_file = [".json"],
            default = "//rules:devices.json",
            doc = "The table of devices: the manufacturer of each chip in Play (`play`), and chips' features.",
        ),
        "folder": attr.string(
            default = "executorch",
            doc = "Folder of the pack's assets that the app opens.",
        ),
        "pack": attr.string(doc = "Name of the pack in Gradle and in Play's API; default: the target's name."),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
