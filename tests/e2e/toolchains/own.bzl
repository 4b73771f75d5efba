"""A toolchain that compiles nothing, and a rule that tells whether it is the chosen one."""

_TYPE = "@bazel_tools//tools/cpp:toolchain_type"

def _own_toolchain_impl(_ctx):
    return [platform_common.ToolchainInfo(owner = "the user")]

own_toolchain = rule(implementation = _own_toolchain_impl)

def _chosen_toolchain_impl(ctx):
    out = ctx.actions.declare_file(ctx.label.name + ".txt")
    owner = getattr(ctx.toolchains[_TYPE], "owner", "somebody else")
    ctx.actions.write(out, owner + "\n")
    return [DefaultInfo(files = depset([out]))]

chosen_toolchain = rule(
    implementation = _chosen_toolchain_impl,
    toolchains = [_TYPE],
)
