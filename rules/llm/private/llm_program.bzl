"""Common parts of et_llm_chat and et_llm_answer_test: the runner with a language model's program, on this machine."""

load("//rules/private:program_run.bzl", "program_files")
load("//rules/private:providers.bzl", "EtProgramInfo")
load("//toolchains/python:paths.bzl", "runfiles_path")

def _command(ctx):
    """The runner's command line and its files.

    Args:
      ctx: rule context with LLM_PROGRAM_ATTRIBUTES.

    Returns:
      A string of shell words, in which $runfiles is the folder of runfiles, and the runfiles.
    """
    info = ctx.attr.program[EtProgramInfo]
    file_by_name = {f.basename: f for f in ctx.files.tokenizer}
    for name in ("tokenizer.json", "chat_format.json"):
        if name not in file_by_name:
            fail("%s: tokenizer: %s has no %s. Available: %s. Make the files with llm_tokenizer." % (
                ctx.label,
                ctx.attr.tokenizer.label,
                name,
                ", ".join(sorted(file_by_name)) or "nothing",
            ))
    run = program_files(ctx.label, info, ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else None)
    flags = [
        ("--program", info.program),
        ("--manifest", info.manifest),
        ("--tokenizer", file_by_name["tokenizer.json"]),
    ] + [("--data", file) for file in run.data]
    words = [_runfile(ctx.executable._runner)]
    for flag, file in flags:
        words += [flag, _runfile(file)]
    runfiles = ctx.runfiles(run.files + ctx.files.tokenizer + [ctx.executable._runner])
    return " ".join(words), runfiles.merge(ctx.attr._runner[DefaultInfo].default_runfiles)

def _runfile(file):
    return "\"$runfiles/%s\"" % runfiles_path(file)

def quoted(word):
    """A word of a shell command.

    Args:
      word: a string.

    Returns:
      A string in single quotes.
    """
    return "'" + word.replace("'", "'\\''") + "'"

def llm_program(ctx, script):
    """Providers of a program or test that starts the runner.

    Args:
      ctx: rule context with LLM_PROGRAM_ATTRIBUTES.
      script: text of a shell script, in which %{command} stands for the runner with its program.

    Returns:
      A list with DefaultInfo.
    """
    command, runfiles = _command(ctx)
    executable = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(executable, _RUNFILES + script.replace("%{command}", command), is_executable = True)
    return [DefaultInfo(executable = executable, runfiles = runfiles)]

_RUNFILES = """#!/bin/sh
set -eu
case "$0" in /*) self=$0 ;; *) self=${PWD%/}/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${RUNFILES_DIR:-${TEST_SRCDIR:-$runfiles}}
"""

LLM_PROGRAM_ATTRIBUTES = {
    "adapter": attr.label(
        providers = [EtProgramInfo],
        doc = "Another program, whose own .ptd replaces the program's: adapter_data = \"by_name\".",
    ),
    "program": attr.label(
        mandatory = True,
        providers = [EtProgramInfo],
        doc = "A language model's et_program.",
    ),
    "tokenizer": attr.label(
        allow_files = True,
        mandatory = True,
        doc = "tokenizer.json and chat_format.json: an llm_tokenizer.",
    ),
    "_runner": attr.label(cfg = "target", default = "//tools/runner", executable = True),
}
