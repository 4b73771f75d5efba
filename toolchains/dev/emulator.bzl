"""qemu_emulator: starts a program for another processor on this machine."""

load("//toolchains/python:paths.bzl", "runfiles_path")

# All that the emulator can do but SME: qemu 7.2 computes its products of 8-bit integers wrong, which
# XNNPACK's quantized layers use where a processor has them.
EMULATED_CPU = "max,sme=off"

_SCRIPT = """#!/bin/sh
# Starts a program for another processor: emulator PROGRAM ARGUMENTS...
set -eu
case "$0" in /*) self=$0 ;; *) self=$PWD/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${RUNFILES_DIR:-${TEST_SRCDIR:-${self%%/%s}}}
# A script starts its program in the emulator itself: the launcher of an app, with bazel run --run_under.
if [ "$(head -c 2 "${1:-}")" = "#!" ]; then
  export RULES_EXECUTORCH_EMULATOR="$self"
  exec "$@"
fi
exec "$runfiles/%s" -cpu %s -L "$runfiles/%s" "$@"
"""

def _qemu_emulator_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    loader = [f for f in ctx.files.libraries if f.basename.startswith("ld-linux")]
    if not loader:
        fail("%s: libraries: no dynamic loader (lib/ld-linux-*.so.*) found." % ctx.label)
    root = runfiles_path(loader[0]).rsplit("/", 2)[0]
    ctx.actions.write(
        script,
        _SCRIPT % (runfiles_path(script), runfiles_path(ctx.file.qemu), EMULATED_CPU, root),
        is_executable = True,
    )
    runfiles = ctx.runfiles([ctx.file.qemu, script] + ctx.files.libraries)
    return [DefaultInfo(executable = script, runfiles = runfiles)]

qemu_emulator = rule(
    implementation = _qemu_emulator_impl,
    doc = "A script that starts a program in qemu's user mode, with the libraries of its processor.",
    attrs = {
        "libraries": attr.label_list(
            allow_files = True,
            doc = "The C and C++ libraries that programs load, with their dynamic loader.",
            mandatory = True,
        ),
        "qemu": attr.label(
            allow_single_file = True,
            doc = "User-mode qemu, statically linked.",
            mandatory = True,
        ),
    },
    executable = True,
)
