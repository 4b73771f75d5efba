"""older_runner: the C++ runner with the older runtime that a test's configuration names."""

load("//toolchains/runtime:providers.bzl", "EtRuntimeInfo")

EtOlderRunnerInfo = provider(
    doc = "The C++ runner with an older runtime.",
    fields = {
        "executable": "File: the runner; None: it cannot be built on this machine.",
        "libraries": "List of Files: the libraries of its runtime.",
        "runfiles": "Runfiles of the runner.",
        "schema": "List of Files: the schemas of the version's programs.",
        "stand_in": "File: a library in the folder that LD_LIBRARY_PATH begins with.",
    },
)

def _older_runner_impl(ctx):
    if not ctx.attr.runner:
        return [EtOlderRunnerInfo(executable = None)]
    runtime = ctx.attr.runtime[EtRuntimeInfo]
    runfiles = ctx.runfiles([ctx.executable.runner] + ctx.files.stand_ins)
    return [EtOlderRunnerInfo(
        executable = ctx.executable.runner,
        libraries = [library.file for library in depset(
            [runtime.core] + runtime.libraries,
            transitive = [library.deps for library in [runtime.core] + runtime.libraries],
        ).to_list()],
        runfiles = runfiles.merge(ctx.attr.runner[DefaultInfo].default_runfiles),
        schema = ctx.files.schema,
        stand_in = ctx.files.stand_ins[0],
    )]

older_runner = rule(
    implementation = _older_runner_impl,
    doc = "EtOlderRunnerInfo of the configuration.",
    attrs = {
        "runner": attr.label(cfg = "target", executable = True),
        "runtime": attr.label(providers = [EtRuntimeInfo]),
        "schema": attr.label_list(allow_files = True),
        "stand_ins": attr.label_list(allow_files = True),
    },
    provides = [EtOlderRunnerInfo],
)
