"""built_for: a file of another target, built for a platform."""

load("//rules/private:platform_transition.bzl", "platform_transition")

def _built_for_impl(ctx):
    target = ctx.attr.program[0][DefaultInfo]
    out = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = out, target_file = target.files.to_list()[0])
    return [DefaultInfo(
        files = depset([out]),
        runfiles = ctx.runfiles([out]).merge(target.default_runfiles),
    )]

built_for = rule(
    implementation = _built_for_impl,
    doc = "A link to what another target makes for a platform.",
    attrs = {
        "platform": attr.label(
            doc = "Platform that it is built for.",
            mandatory = True,
        ),
        "program": attr.label(
            cfg = platform_transition,
            doc = "Its first file is taken.",
            mandatory = True,
        ),
    },
)
