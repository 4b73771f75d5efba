"""apple_resource_group, which hands on where the real one would place resources."""

ResourcesInfo = provider(
    doc = "Resources of an app.",
    fields = {"places": "Dict of path in the app to File."},
)

def _apple_resource_group_impl(ctx):
    places = {}
    for file in ctx.files.structured_resources:
        package = file.owner.package
        path = file.short_path.removeprefix(package + "/" if package else "")
        for prefix in ctx.attr.strip_structured_resources_prefixes:
            if path.startswith(prefix + "/"):
                path = path.removeprefix(prefix + "/")
                break
        places[path] = file
    return [ResourcesInfo(places = places)]

apple_resource_group = rule(
    implementation = _apple_resource_group_impl,
    doc = "Files of an app.",
    attrs = {
        "strip_structured_resources_prefixes": attr.string_list(),
        "structured_resources": attr.label_list(allow_files = True),
    },
)
