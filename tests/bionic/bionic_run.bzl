"""bionic_run: starts programs for Android on this machine, under the bench."""

load("//rules/private:platform_transition.bzl", "platform_transition")
load("//toolchains/dev:emulator.bzl", "EMULATED_CPU")
load("//toolchains/python:paths.bzl", "runfiles_path")

def _bionic_run_impl(ctx):
    # A folder of its own: libraries of several platforms have the same path in a runfiles tree.
    bench = []
    for library in ctx.files.libraries:
        placed = ctx.actions.declare_file("%s.bench/%s" % (ctx.label.name, library.basename))
        ctx.actions.symlink(output = placed, target_file = library)
        bench.append(placed)
    loaders = [f for f in ctx.files.glibc if f.basename == ctx.attr.loader]
    if ctx.attr.glibc and len(loaders) != 1:
        fail("%s: glibc has no file %s" % (ctx.label, ctx.attr.loader))
    emulator = ctx.files.emulator
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.expand_template(
        template = ctx.file._template,
        output = script,
        is_executable = True,
        substitutions = {
            "%{bench}": runfiles_path(bench[0]).rpartition("/")[0],
            "%{cpu}": EMULATED_CPU,
            "%{emulator}": runfiles_path(emulator[0]) if emulator else "",
            "%{glibc}": runfiles_path(loaders[0]).rpartition("/")[0] if loaders else "",
            "%{loader}": ctx.attr.loader,
            "%{name}": ctx.label.name,
        },
    )
    runfiles = ctx.runfiles(bench + emulator + ctx.files.glibc)
    return [DefaultInfo(executable = script, runfiles = runfiles)]

bionic_run = rule(
    implementation = _bionic_run_impl,
    doc = "A program that runs programs for Android: its arguments are theirs, after the program's path.",
    attrs = {
        "emulator": attr.label(
            allow_files = True,
            doc = "User-mode qemu, where the processor is not this machine's.",
        ),
        "glibc": attr.label(
            allow_files = True,
            doc = "glibc for that processor; default: this machine's.",
        ),
        "libraries": attr.label_list(
            cfg = platform_transition,
            mandatory = True,
            doc = "The bench's libraries.",
        ),
        "loader": attr.string(
            mandatory = True,
            doc = "glibc's dynamic linker: a path on this machine, or a file's name in `glibc`.",
        ),
        "platform": attr.label(
            mandatory = True,
            providers = [platform_common.PlatformInfo],
            doc = "Platform of the bench's libraries: Linux, on Android's processor.",
        ),
        "_template": attr.label(
            allow_single_file = True,
            default = "//tests/bionic:bionic_run.sh",
        ),
    },
    executable = True,
)
