"""android_library, which compiles Java; android_binary, which writes down where the real one would
place assets."""

load("@rules_executorch//rules/mobile/private:android_java.bzl", "android_classes")

def _android_binary_impl(ctx):
    lines = []
    for file in ctx.files.assets:
        # As the real one has it: assets_dir is relative to the package of the file's owner.
        root = "/".join([p for p in [file.owner.package, ctx.attr.assets_dir] if p]) + "/"
        if not file.short_path.startswith(root):
            fail("%s is not below %s" % (file.short_path, root))
        lines.append(file.short_path.removeprefix(root))
    written = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(written, "".join([line + "\n" for line in sorted(lines)]))
    return [DefaultInfo(files = depset([written] + ctx.files.deps))]

android_binary = rule(
    implementation = _android_binary_impl,
    doc = "Writes `<name>.txt`: paths of the assets in the app.",
    attrs = {
        "assets": attr.label_list(allow_files = True),
        "assets_dir": attr.string(),
        "deps": attr.label_list(),
        "manifest": attr.label(allow_single_file = [".xml"]),
        "nocompress_extensions": attr.string_list(),
    },
)

def android_library(*, name, srcs, deps, manifest):
    """Compiles Java against Android's API.

    Args:
      name: of the target.
      srcs: .java files.
      deps: targets with the .java files that those need.
      manifest: not read.
    """
    android_classes(name = name, srcs = srcs + deps)
