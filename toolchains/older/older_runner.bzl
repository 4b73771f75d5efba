"""older_runner: the C++ runner with the older runtime that a test's configuration names."""

load("//toolchains/runtime:providers.bzl", "EtRuntimeInfo")

EtOlderRunnerInfo = provider(
    doc = "The C++ runner with an older runtime.",
    fields = {
        "executable": "File: the runner; None: it cannot be built on this machine.",
        "libraries": "List of Files: the libraries of its runtime.",
        "files": "List of Files: executable, libraries, and those with Python's names.",
        "schema": "List of Files: the schemas of the version's programs.",
        "python_names": "File: a library with Python's names, in place of one of Python's; the others are beside it.",
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
    python_names = [_with_version(ctx, runtime, file, "python_names/" + file.basename) for file in ctx.files.python_names]
    return [EtOlderRunnerInfo(
        executable = executable,
        files = [executable] + libraries + python_names,
        libraries = libraries,
        schema = ctx.files.schema,
        python_names = python_names[0],
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
        "python_names": attr.label_list(allow_files = True),
    },
    provides = [EtOlderRunnerInfo],
)
