"""program_runner: the C++ runner for the machine that runs a test, where its C++ compiler is found."""

RUNNER_TOOLCHAIN = Label("//toolchains/runner:toolchain_type")

def _program_runner_impl(ctx):
    target = ctx.attr.runner[DefaultInfo]
    runner = struct(
        executable = ctx.executable.runner,
        runfiles = target.default_runfiles.merge(ctx.runfiles([ctx.executable.runner])),
    )
    return [platform_common.ToolchainInfo(runner = runner)]

program_runner = rule(
    implementation = _program_runner_impl,
    doc = """A runner for a `toolchain` of the type `@rules_executorch//toolchains/runner:toolchain_type`.

The toolchain has `runner`: a struct of `executable`, a File, and `runfiles`.
""",
    attrs = {
        # A test runs on the platform of its own execution, whatever programs are built for.
        "runner": attr.label(cfg = "exec", executable = True, mandatory = True),
    },
)
