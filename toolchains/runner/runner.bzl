"""The library that runs programs on this machine: in one configuration, however a build is configured.

Compiling it takes a minute of CPU. So it is built for a portable platform, with zig and with optimization, whatever the
build's target platform, compilation mode and compiler flags are, and always as a tool: tests, chats, `et`, the actions
that run programs and the runner share one result, and so do machines with one cache.
"""

load("@executorch_compiler//:found.bzl", "HOST_PLATFORM")
load("//toolchains/cc:targets.bzl", "TARGETS")
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
_TOOLCHAINS = "//command_line_option:extra_toolchains"
_PORTABLE = ["linux_arm64", "linux_x86_64", "macos_arm64"]

# Settings that `host_options` reads, and those that it gives.
HOST_INPUTS = [_PLATFORMS, _TOOLCHAINS]
HOST_OUTPUTS = HOST_OPTIONS.keys() + HOST_INPUTS

def host_options(settings, platform = None):
    """The one configuration, as transitions know it.

    Its C++ toolchain precedes those of modules: a user's module that depends on rules_cc has one that would fit, too.

    Args:
      settings: dict of HOST_INPUTS, for machines of other kinds than zig compiles for.
      platform: Label of the machine's platform, instead of the portable one of its kind.

    Returns:
      A dict of HOST_OUTPUTS.
    """
    if not platform and HOST_PLATFORM in _PORTABLE:
        platform = Label("//toolchains/platforms:" + HOST_PLATFORM)
    has_compiler = platform and platform.name in TARGETS
    return HOST_OPTIONS | {
        _PLATFORMS: [platform] if platform else settings[_PLATFORMS],
        _TOOLCHAINS: [str(Label("//toolchains/cc:" + platform.name))] if has_compiler else settings[_TOOLCHAINS],
    }

def _host_impl(settings, attr):
    return host_options(settings, attr.platform) | {EMULATING: False, OLDER_VERSION: ""}

_host = transition(
    implementation = _host_impl,
    inputs = HOST_INPUTS,
    outputs = HOST_OUTPUTS + [EMULATING, OLDER_VERSION],
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
