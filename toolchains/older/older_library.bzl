"""older_library: the library that runs programs, with the older runtime that a test's configuration names."""

load("//toolchains/runner:runner.bzl", "HOST_INPUTS", "HOST_OUTPUTS", "OLDER_VERSION", "host_options")
load("//toolchains/runtime:providers.bzl", "EtRuntimeInfo")

EtOlderLibraryInfo = provider(
    doc = "The library that runs programs, with an older runtime.",
    fields = {
        "library": "File: the library; None: it cannot be built for this machine.",
        "runtime": "List of Files: the libraries of its runtime.",
        "files": "List of Files: library, runtime, and those with Python's names.",
        "schema": "List of Files: the schemas of the version's programs.",
        "python_names": "File: a library with Python's names, in place of one of Python's; the others are beside it.",
    },
)

def _older_transition_impl(settings, attr):
    # Tests run on the host's platform, whatever platform is built for.
    options = host_options(settings)
    return {version: options | {OLDER_VERSION: version} for version in attr.runtimes}

older_transition = transition(
    implementation = _older_transition_impl,
    inputs = HOST_INPUTS,
    outputs = HOST_OUTPUTS + [OLDER_VERSION],
)

def _older_library_impl(ctx):
    if not ctx.attr.library:
        return [EtOlderLibraryInfo(library = None)]
    runtime = ctx.attr.runtime[EtRuntimeInfo]
    direct = [runtime.core] + runtime.libraries + ([runtime.etdump] if runtime.etdump else [])
    files = [library.file for library in depset(direct, transitive = [x.deps for x in direct]).to_list()]

    # A test has several versions, whose files would have one path in its runfiles.
    [built] = ctx.files.library
    library = _with_version(ctx, runtime, built, built.basename)
    python_names = [_with_version(ctx, runtime, file, "python_names/" + file.basename) for file in ctx.files.python_names]
    return [EtOlderLibraryInfo(
        library = library,
        files = [library] + files + python_names,
        runtime = files,
        schema = ctx.files.schema,
        python_names = python_names[0],
    )]

def _with_version(ctx, runtime, file, name):
    link = ctx.actions.declare_file("%s.%s/%s" % (ctx.label.name, runtime.executorch_version, name))
    ctx.actions.symlink(output = link, target_file = file, is_executable = True)
    return link

older_library = rule(
    implementation = _older_library_impl,
    doc = "EtOlderLibraryInfo of the configuration.",
    attrs = {
        "library": attr.label(allow_files = True, doc = "None: it cannot be built."),
        "runtime": attr.label(providers = [EtRuntimeInfo]),
        "schema": attr.label_list(allow_files = True),
        "python_names": attr.label_list(allow_files = True),
    },
    provides = [EtOlderLibraryInfo],
)
