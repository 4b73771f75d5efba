"""engines: says where the repositories of the servers' programs are."""

load("//toolchains/python:paths.bzl", "runfiles_path")

def _engines_impl(ctx):
    listing = ctx.actions.declare_file("engines.json")
    markers = {}
    for target, name in ctx.attr.repositories.items():
        markers[name] = target[DefaultInfo].files.to_list()[0]
    ctx.actions.write(listing, json.encode_indent({
        "listing": runfiles_path(listing),
        "markers": {name: runfiles_path(marker) for name, marker in sorted(markers.items())},
    }) + "\n")
    return [DefaultInfo(
        files = depset([listing]),
        runfiles = ctx.runfiles([listing] + markers.values()),
    )]

engines = rule(
    implementation = _engines_impl,
    doc = "Writes engines.json, which names a file of each repository; the programs run from there.",
    attrs = {
        "repositories": attr.label_keyed_string_dict(
            allow_files = True,
            doc = "A file in the uppermost folder of a repository, and the engine's name.",
            mandatory = True,
        ),
    },
)
