"""llm_chat and llm_answer_test: the runner with a language model's program, on this machine."""

load("//rules:providers.bzl", "EtProgramInfo")
load("//toolchains/python:paths.bzl", "runfiles_path")

def _command(ctx):
    """The runner's command line and its files.

    Args:
      ctx: rule context with `_ATTRIBUTES`.

    Returns:
      A string of shell words, in which $runfiles is the folder of runfiles, and the runfiles.
    """
    info = ctx.attr.program[EtProgramInfo]
    adapter = ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else info
    if ctx.attr.adapter and not adapter.own_data:
        fail("%s: adapter = %s has no .ptd of its own. Set weights = \"separate\" on it." %
             (ctx.label, adapter.label))
    file_by_name = {f.basename: f for f in ctx.files.tokenizer}
    for name in ("tokenizer.json", "chat_format.json"):
        if name not in file_by_name:
            fail("%s: tokenizer = %s: %s not found. Available: %s. Make the files with llm_tokenizer." % (
                ctx.label,
                ctx.attr.tokenizer.label,
                name,
                ", ".join(sorted(file_by_name)) or "nothing",
            ))
    data = ([adapter.own_data] if adapter.own_data else []) + [s.data for s in info.shared_data]
    indexes = [adapter.own_index] if adapter.own_index else []
    flags = [
        ("--program", info.program),
        ("--manifest", info.manifest),
        ("--tokenizer", file_by_name["tokenizer.json"]),
    ] + [("--data", file) for file in data]
    words = [_runfile(ctx.executable._runner)]
    for flag, file in flags:
        words += [flag, _runfile(file)]
    files = [info.program, info.manifest] + data + indexes + ctx.files.tokenizer
    runfiles = ctx.runfiles(files).merge(ctx.attr._runner[DefaultInfo].default_runfiles)
    return " ".join(words), runfiles

def _runfile(file):
    return "\"$runfiles/%s\"" % runfiles_path(file)

def _quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"

def _script(ctx, text):
    command, runfiles = _command(ctx)
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(script, _RUNFILES + text.replace("%{command}", command), is_executable = True)
    return [DefaultInfo(
        executable = script,
        runfiles = runfiles.merge(ctx.runfiles([ctx.executable._runner])),
    )]

_RUNFILES = """#!/bin/sh
set -eu
case "$0" in /*) self=$0 ;; *) self=${PWD%/}/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${RUNFILES_DIR:-${TEST_SRCDIR:-$runfiles}}
"""

# A first argument that is not an option is the prompt; without a prompt it is a conversation.
_CHAT = """case "${1:--}" in
-*)
  mode=--chat
  for word; do
    case "$word" in --prompt | --prompt=* | --chat | --help | --list) mode= ;; esac
  done
  ;;
*)
  mode=--prompt
  ;;
esac
exec %{command} $mode "$@"
"""

_ANSWER = """answer=$(%{command} --prompt %{prompt} "$@")
printf '%s\\n' "$answer"
case "$answer" in
*%{expect}*) ;;
*)
  echo "FAILED: the answer does not contain "%{expect}. >&2
  exit 1
  ;;
esac
"""

_ATTRIBUTES = {
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

def _llm_chat_impl(ctx):
    return _script(ctx, _CHAT)

llm_chat = rule(
    implementation = _llm_chat_impl,
    doc = """A program to `bazel run`: answers a prompt, prints tokens as they come and their speed.

```starlark
llm_chat(name = "llama_chat", program = ":llama_xnnpack", tokenizer = ":tokenizer")
```

`bazel run :llama_chat -- "What is the capital of France?"`, or without a prompt for a conversation.
It is the runner, `//tools/runner`, and takes its options after the prompt.
""",
    attrs = _ATTRIBUTES,
    executable = True,
)

def _llm_answer_test_impl(ctx):
    text = _ANSWER.replace("%{prompt}", _quoted(ctx.attr.prompt)).replace("%{expect}", _quoted(ctx.attr.expect))
    return _script(ctx, text)

llm_answer_test = rule(
    implementation = _llm_answer_test_impl,
    doc = """Asks a language model's program one question; the answer must contain a text.

```starlark
llm_answer_test(
    name = "llama_answer_test",
    expect = "Paris",
    program = ":llama_xnnpack",
    prompt = "What is the capital of France?",
    tokenizer = ":tokenizer",
)
```
""",
    attrs = _ATTRIBUTES | {
        "expect": attr.string(mandatory = True, doc = "What the answer must contain."),
        "prompt": attr.string(mandatory = True, doc = "The question."),
    },
    test = True,
)
