"""java_program: a .jar that is run by a Java run-time environment, as an executable."""

load("//toolchains/python:paths.bzl", "runfiles_path")

# Short runs of one thread; nothing is written but what a program is asked for.
_JVM_FLAGS = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dfile.encoding=UTF-8",
    "-Duser.timezone=UTC",
    "-Duser.language=en",
    "--enable-native-access=ALL-UNNAMED",
]

_SCRIPT = """#!/bin/sh
# Runs a Java program from the runfiles of this script.
set -eu
runfiles=$0.runfiles
[ -d "$runfiles" ] || runfiles=${{RUNFILES_DIR:-${{TEST_SRCDIR:-$runfiles}}}}
exec "$runfiles/{java}" {flags} -cp "$runfiles/{jar}" {main_class} "$@"
"""

def _java_program_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(
        script,
        _SCRIPT.format(
            flags = " ".join(_JVM_FLAGS),
            jar = runfiles_path(ctx.file.jar),
            java = runfiles_path(ctx.file.java),
            main_class = ctx.attr.main_class,
        ),
        is_executable = True,
    )
    runfiles = ctx.runfiles([ctx.file.java, ctx.file.jar] + ctx.files.java_files)
    return [DefaultInfo(executable = script, runfiles = runfiles)]

java_program = rule(
    implementation = _java_program_impl,
    doc = "A program in a .jar, without rules for Java and without a Java of the machine.",
    attrs = {
        "jar": attr.label(
            allow_single_file = [".jar"],
            doc = "Archive with the program.",
            mandatory = True,
        ),
        "java": attr.label(
            allow_single_file = True,
            doc = "The program `java`.",
            mandatory = True,
        ),
        "java_files": attr.label_list(
            allow_files = True,
            doc = "Files that `java` needs beside itself.",
        ),
        "main_class": attr.string(
            doc = "Name of the class with the main method.",
            mandatory = True,
        ),
    },
    executable = True,
)
