"""ios_application, which writes down where the real one would place resources."""

load(":resources.bzl", "ResourcesInfo")

def _ios_application_impl(ctx):
    places = {}
    for group in ctx.attr.resources:
        places.update(group[ResourcesInfo].places)
    written = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(written, "".join([path + "\n" for path in sorted(places)]))
    return [DefaultInfo(files = depset([written] + places.values()))]

ios_application = rule(
    implementation = _ios_application_impl,
    doc = "Writes `<name>.txt`: paths of the resources in the app.",
    attrs = {
        "bundle_id": attr.string(),
        "deps": attr.label_list(),
        "families": attr.string_list(),
        "infoplists": attr.label_list(allow_files = [".plist"]),
        "linkopts": attr.string_list(),
        "minimum_os_version": attr.string(),
        "resources": attr.label_list(providers = [ResourcesInfo]),
    },
)
