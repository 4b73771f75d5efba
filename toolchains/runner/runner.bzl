"""program_runner: the C++ runner for the machine that runs a test."""

RUNNER_TOOLCHAIN = Label("//toolchains/runner:toolchain_type")

def _program_runner_impl(ctx):
    runner = ctx.attr.runner
    target = (runner[0] if type(runner) == "list" else runner)[DefaultInfo]
    runner = struct(
        executable = ctx.executable.runner,
        runfiles = target.default_runfiles.merge(ctx.runfiles([ctx.executable.runner])),
    )
    return [platform_common.ToolchainInfo(runner = runner)]

_PLATFORMS = "//command_line_option:platforms"

def _on_platform_impl(_settings, attr):
    return {_PLATFORMS: [attr.platform]}

_on_platform = transition(
    implementation = _on_platform_impl,
    inputs = [],
    outputs = [_PLATFORMS],
)

def _runner_rule(cfg, attrs = {}):
    return rule(
        implementation = _program_runner_impl,
        doc = """A runner for a `toolchain` of the type `@rules_executorch//toolchains/runner:toolchain_type`.

The toolchain has `runner`: a struct of `executable`, a File, and `runfiles`.
""",
        attrs = {"runner": attr.label(cfg = cfg, executable = True, mandatory = True)} | attrs,
    )

# A test runs on its execution platform, whatever platform its programs are for.
program_runner = _runner_rule(cfg = "exec")

# Where both platforms are alike, the runner that `bazel run` starts serves tests, too: it is compiled once.
program_runner_of_target = _runner_rule(cfg = "target")

# Where the machine has no C++ compiler: for a portable platform, for which zig compiles.
program_runner_on_platform = _runner_rule(
    cfg = _on_platform,
    attrs = {"platform": attr.label(mandatory = True, providers = [platform_common.PlatformInfo])},
)
