"""et_ios_asset_packs: variants as asset packs of Apple's Background Assets."""

load("//rules/mobile/private:pack_action.bzl", "PACK_ATTRIBUTES", "pack_assets")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _et_ios_asset_packs_impl(ctx):
    parts = ctx.attr.prefix.split(".")
    if [part for part in parts if not part.replace("-", "").replace("_", "").isalnum()]:
        fail("%s: prefix: got \"%s\", expected names with dots between them, such as \"com.example.models\"." %
             (ctx.label, ctx.attr.prefix))
    output = pack_assets(ctx, module = "etbundle.mobile.asset_packs", flags = {"--prefix": ctx.attr.prefix})
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

et_ios_asset_packs = rule(
    implementation = _et_ios_asset_packs_impl,
    doc = """Asset packs of Apple's Background Assets: each iPhone downloads the files of its variant.

```starlark
et_assets(name = "assistant_files", programs = [":assistant"])       # an et_variants
et_ios_asset_packs(name = "assistant_packs", assets = ":assistant_files", prefix = "com.example.assistant")
```

Output, a folder in which `xcrun ba-package <id>.json -o <id>.aar` makes a pack, for Apple's servers or your own:

    <folder>/                          manifest.json, programs/, data/, assets/
    <prefix>.common.json               the pack with manifest.json and what all devices need
    <prefix>.program.<program>.json    a variant's program
    <prefix>.data.<file>.json          a data file, which several variants may load

The app asks for `common`, reads `manifest.json`, and chooses: `<prefix>.program.<name>`, and `<prefix>.data.<file>` for
each of the program's `data` that is not in `common`. All packs share one tree of paths, so the app opens `<folder>`.
Variants that are not for iOS are left out. Packs are on demand, as the system does not know variants.
""",
    attrs = PACK_ATTRIBUTES | {
        "prefix": attr.string(
            doc = "Beginning of the packs' identifiers, such as \"com.example.assistant\".",
            mandatory = True,
        ),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
