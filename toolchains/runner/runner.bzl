"""program_runner: the C++ runner for the machine that runs a test, where its C++ compiler is found."""

RUNNER_TOOLCHAIN = Label("//toolchains/runner:toolchain_type")

def _program_runner_impl(ctx):
    target = ctx.attr.runner[DefaultInfo]
    runner = struct(
        executable = ctx.executable.runner,
        runfiles = target.default_runfiles.merge(ctx.runfiles([ctx.executable.runner])),
    )
    return [platform_common.ToolchainInfo(runner = runner)]

def _runner_rule(cfg):
    return rule(
        implementation = _program_runner_impl,
        doc = """A runner for a `toolchain` of the type `@rules_executorch//toolchains/runner:toolchain_type`.

The toolchain has `runner`: a struct of `executable`, a File, and `runfiles`.
""",
        attrs = {"runner": attr.label(cfg = cfg, executable = True, mandatory = True)},
    )

# A test runs on its execution platform, whatever platform its programs are for.
program_runner = _runner_rule(cfg = "exec")

# Where both platforms are alike, the runner that `bazel run` starts serves tests, too: it is compiled once.
program_runner_of_target = _runner_rule(cfg = "target")
