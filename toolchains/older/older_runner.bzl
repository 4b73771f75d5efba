"""older_runner: the C++ runner with the older runtime that a test's configuration names."""

load("//toolchains/runtime:providers.bzl", "EtRuntimeInfo")

EtOlderRunnerInfo = provider(
    doc = "The C++ runner with an older runtime.",
    fields = {
        "executable": "File: the runner; None: it cannot be built on this machine.",
        "libraries": "List of Files: the libraries of its runtime.",
        "files": "List of Files: executable, libraries and stand-ins.",
        "schema": "List of Files: the schemas of the version's programs.",
        "stand_in": "File: a stand-in for one of Python's libraries; the others are beside it.",
    },
)

def _older_runner_impl(ctx):
    if not ctx.attr.runner:
        return [EtOlderRunnerInfo(executable = None)]
    runtime = ctx.attr.runtime[EtRuntimeInfo]
    direct = [runtime.core] + runtime.libraries
    libraries = [library.file for library in depset(direct, transitive = [x.deps for x in direct]).to_list()]

    # A test has several versions, whose files would have one path in its runfiles.
    executable = _with_version(ctx, runtime, ctx.executable.runner, "runner")
    stand_ins = [_with_version(ctx, runtime, file, "stand_ins/" + file.basename) for file in ctx.files.stand_ins]
    return [EtOlderRunnerInfo(
        executable = executable,
        files = [executable] + libraries + stand_ins,
        libraries = libraries,
        schema = ctx.files.schema,
        stand_in = stand_ins[0],
    )]

def _with_version(ctx, runtime, file, name):
    link = ctx.actions.declare_file("%s.%s/%s" % (ctx.label.name, runtime.executorch_version, name))
    ctx.actions.symlink(output = link, target_file = file, is_executable = True)
    return link

older_runner = rule(
    implementation = _older_runner_impl,
    doc = "EtOlderRunnerInfo of the configuration.",
    attrs = {
        "runner": attr.label(cfg = "target", executable = True, doc = "None: it cannot be built."),
        "runtime": attr.label(providers = [EtRuntimeInfo]),
        "schema": attr.label_list(allow_files = True),
        "stand_ins": attr.label_list(allow_files = True),
    },
    provides = [EtOlderRunnerInfo],
)
