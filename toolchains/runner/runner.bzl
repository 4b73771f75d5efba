"""The library that runs programs on this machine: in one configuration, however a build is configured.

Compiling it takes a minute of CPU. So it is built for a portable platform, with zig and with optimization, whatever the
build's target platform, compilation mode and compiler flags are, and always as a tool: tests, chats, `et`, the actions
that run programs and the runner share one result, and so do machines with one cache.
"""

load("@executorch_compiler//:found.bzl", "HOST_PLATFORM")
load("//toolchains/runtime:providers.bzl", "EtRuntimeInfo")

RUNNER_TOOLCHAIN = Label("//toolchains/runner:toolchain_type")

# What all builds of it have.
HOST_OPTIONS = {
    "//command_line_option:compilation_mode": "opt",
    "//command_line_option:conlyopt": [],
    "//command_line_option:copt": [],
    "//command_line_option:cxxopt": [],
    "//command_line_option:features": [],
    "//command_line_option:linkopt": [],
    "//command_line_option:per_file_copt": [],
    "//command_line_option:strip": "sometimes",
}
OLDER_VERSION = str(Label("//toolchains/runtime:older_version"))

# Whether backends name their emulators.
EMULATING = str(Label("//toolchains/runner:emulating"))

_PLATFORMS = "//command_line_option:platforms"
_PORTABLE = ["linux_arm64", "linux_x86_64", "macos_arm64"]

def host_platforms(name, others):
    """The platform that the library is built for, as transitions know it.

    Args:
      name: of the machine's kind, as in //toolchains/platforms.
      others: list of Labels: the build's platforms, for machines of other kinds.

    Returns:
      A list of Labels.
    """
    return [Label("//toolchains/platforms:" + name)] if name in _PORTABLE else others

def _host_impl(settings, attr):
    platforms = [attr.platform] if attr.platform else host_platforms(HOST_PLATFORM, settings[_PLATFORMS])
    return HOST_OPTIONS | {EMULATING: False, OLDER_VERSION: "", _PLATFORMS: platforms}

_host = transition(
    implementation = _host_impl,
    inputs = [_PLATFORMS],
    outputs = HOST_OPTIONS.keys() + [EMULATING, OLDER_VERSION, _PLATFORMS],
)

_PLATFORM = {
    "platform": attr.label(
        providers = [platform_common.PlatformInfo],
        doc = "The machine that runs it, one of //toolchains/platforms; default: the one that Bazel runs on.",
    ),
}

def _file_and_runfiles(ctx, binary):
    [file] = binary[DefaultInfo].files.to_list()
    return file, binary[DefaultInfo].default_runfiles.merge(ctx.runfiles([file]))

def _built_for_host_impl(ctx):
    [built] = ctx.attr.built
    return [DefaultInfo(files = built[DefaultInfo].files, runfiles = built[DefaultInfo].default_runfiles)]

built_for_host = rule(
    implementation = _built_for_host_impl,
    doc = "A binary or a shared library in the one configuration: for what depends on it as a tool, with cfg = \"exec\".",
    attrs = _PLATFORM | {"built": attr.label(cfg = _host, mandatory = True)},
)

def _binary_on_host_impl(ctx):
    file, runfiles = _file_and_runfiles(ctx, ctx.attr.binary)
    link = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = link, target_file = file, is_executable = True)
    return [DefaultInfo(executable = link, runfiles = runfiles)]

binary_on_host = rule(
    implementation = _binary_on_host_impl,
    doc = "A program for this machine.",
    attrs = {"binary": attr.label(cfg = "exec", doc = "A built_for_host.", mandatory = True)},
    executable = True,
)

def _library_on_host_impl(ctx):
    _, runfiles = _file_and_runfiles(ctx, ctx.attr.library)
    return [DefaultInfo(files = runfiles.files, runfiles = runfiles)]

library_on_host = rule(
    implementation = _library_on_host_impl,
    doc = "A shared library for this machine, with those that it loads.",
    attrs = {"library": attr.label(cfg = "exec", doc = "A built_for_host.", mandatory = True)},
)

def _program_library_impl(ctx):
    [runtime] = ctx.attr.runtime
    file, runfiles = _file_and_runfiles(ctx, ctx.attr.library)
    return [platform_common.ToolchainInfo(
        library = file,
        files = depset(ctx.files.python + ctx.files.preloads, transitive = [runfiles.files]),
        preloads = ctx.files.preloads,
        runtime = runtime[EtRuntimeInfo],
    )]

program_library = rule(
    implementation = _program_library_impl,
    doc = """The library that runs programs, for a `toolchain` of the type //toolchains/runner:toolchain_type.

It has `library`, a File; `files`, a depset of it, of what it loads and of its Python module; `preloads`, a list of
Files; and `runtime`, the EtRuntimeInfo in it.
""",
    attrs = _PLATFORM | {
        "library": attr.label(cfg = "exec", doc = "A built_for_host of the same platform.", mandatory = True),
        "preloads": attr.label_list(
            allow_files = True,
            cfg = "exec",
            doc = "Shared libraries that a process loads before it, in this order. Their folders are on the search path.",
        ),
        "python": attr.label(allow_files = True, default = "//tools/runner:files"),
        "runtime": attr.label(cfg = _host, default = "//toolchains/runtime:current"),
    },
)
