"""et_android_ai_pack: variants as an AI pack of Play for On-device AI."""

load("//rules/mobile/private:pack_action.bzl", "PACK_ATTRIBUTES", "check_name", "pack_assets")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _et_android_ai_pack_impl(ctx):
    pack = ctx.attr.pack or ctx.label.name
    check_name(ctx.label, "pack", pack)
    output = pack_assets(
        ctx,
        module = "etbundle.mobile.ai_pack",
        flags = {"--devices": ctx.file.devices, "--pack": pack},
        inputs = [ctx.file.devices],
    )
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

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
    attrs = PACK_ATTRIBUTES | {
        "devices": attr.label(
            allow_single_file = [".json"],
            default = "//rules:devices.json",
            doc = "The table of devices: the manufacturer of each chip in Play (`play`), and chips' features.",
        ),
        "pack": attr.string(doc = "Name of the pack in Gradle and in Play's API; default: the target's name."),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
