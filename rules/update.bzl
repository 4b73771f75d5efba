"""et_update: what a newer version of an app has and an older one lacks, as one file."""

load("//rules/private:version_files.bzl", "add_version")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")

def _et_update_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".update")
    listing = ctx.actions.declare_file(ctx.label.name + ".update.json")
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    inputs = add_version(ctx, args, ctx.attr.previous, "previous") + add_version(ctx, args, ctx.attr.current, "current")
    args.add("--output", output)
    args.add("--listing", listing)
    linker_action(
        ctx,
        module = "etrelease.update",
        arguments = args,
        inputs = inputs,
        outputs = [output, listing],
        mnemonic = "EtUpdate",
        progress_message = "Comparing two versions for %{label}",
    )
    return [
        DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output])),
        OutputGroupInfo(listing = depset([listing])),
    ]

et_update = rule(
    implementation = _et_update_impl,
    doc = """An update of an app that is installed: what the newer version has and the older one lacks.

```starlark
et_update(
    name = "chat_1_1",
    current = ":chat_linux_arm64",
    previous = "@chat_1_0//file",    # the archive of the version that devices have
)
```

Outputs:

    <name>.update         the update; the library applies it, and the runner with --apply_update
    <name>.update.json    what is in it: files that are fetched, kept and removed, in bytes

The update has only those blobs, weights for example, that the older version has nowhere. It applies to that version
alone: to folders whose `manifest.json` has the same sha256. The same versions give the same bytes. Output group:
`listing`. To sign an update, see docs/howto/apps.md.
""",
    attrs = {
        "current": attr.label(
            allow_files = True,
            doc = "The newer version: an et_runner_app, et_assets or et_release, an app's archive " +
                  "(.tar.zst or .zip), or an app's files, with `manifest.json`.",
            mandatory = True,
        ),
        "previous": attr.label(
            allow_files = True,
            doc = "The older version: one of the same.",
            mandatory = True,
        ),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
