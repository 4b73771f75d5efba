"""swift_library, which only checks that its sources and dependencies exist."""

def _swift_library_impl(ctx):
    return [DefaultInfo(files = depset(ctx.files.srcs))]

swift_library = rule(
    implementation = _swift_library_impl,
    doc = "Compiles nothing.",
    attrs = {
        "deps": attr.label_list(),
        "module_name": attr.string(),
        "srcs": attr.label_list(allow_files = [".swift"], allow_empty = False),
    },
)
