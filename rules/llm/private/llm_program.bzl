"""Common parts of et_llm_chat and et_llm_answer_test: the runner's command line with a language model's program."""

load("//rules/private:backend_packages.bzl", "running_packages")
load("//rules/private:emulation.bzl", "EMULATED", "emulated_recipe", "running_program")
load("//rules/private:program_run.bzl", "RUNNING_TOOLCHAINS", "program_files", "running_script")
load("//rules/private:providers.bzl", "EtProgramInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "runfiles_path")
load("//toolchains/python:python_tool.bzl", "tool_attributes")

# Of rules that call `llm_program`.
LLM_PROGRAM_TOOLCHAINS = RUNNING_TOOLCHAINS

def _command(ctx):
    """The runner's command line and its files.

    Args:
      ctx: rule context with LLM_PROGRAM_ATTRIBUTES and LLM_PROGRAM_TOOLCHAINS.

    Returns:
      A string of shell words, in which $runfiles is the folder of runfiles, and the runfiles.
    """
    running = running_program(ctx)
    info = running.info
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
    runner = ctx.actions.declare_file(ctx.label.name + ".runner")
    files = running_script(
        ctx,
        runner,
        words = ["runner.command_line"],
        layers = running_packages(ctx.label, emulated_recipe(ctx)),
        first_roots = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter.light_roots,
        twin = running.twin,
    )
    words = [_runfile(runner)]
    for flag, file in flags:
        words += [flag, _runfile(file)]
    return " ".join(words), ctx.runfiles(run.files + ctx.files.tokenizer + [runner], transitive_files = files)

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
      ctx: rule context with LLM_PROGRAM_ATTRIBUTES and LLM_PROGRAM_TOOLCHAINS.
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
export RUNFILES_DIR="$runfiles"
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
} | EMULATED | tool_attributes()
