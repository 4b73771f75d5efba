"""program_runner: the C++ runner for the machine that runs a test, where its C++ compiler is found."""

RUNNER_TOOLCHAIN = Label("//toolchains/runner:toolchain_type")

def _program_runner_impl(ctx):
    target = ctx.attr.runner[DefaultInfo]
    runner = struct(
        executable = ctx.executable.runner,
        runfiles = target.default_runfiles.merge(ctx.runfiles([ctx.executable.runner])),
    )
    return [platform_common.ToolchainInfo(runner = runner)]

_DOC = """A runner for a `toolchain` of the type `@rules_executorch//toolchains/runner:toolchain_type`.

The toolchain has `runner`: a struct of `executable`, a File, and `runfiles`.
"""

# A test runs on its execution platform, whatever platform its programs are for.
program_runner = rule(
    implementation = _program_runner_impl,
    doc = _DOC,
    attrs = {"runner": attr.label(cfg = "exec", executable = True, mandatory = True)},
)

# Where both platforms are alike, the runner that `bazel run` starts serves tests, too: it is compiled once.
program_runner_of_target = rule(
    implementation = _program_runner_impl,
    doc = _DOC,
    attrs = {"runner": attr.label(cfg = "target", executable = True, mandatory = True)},
)
