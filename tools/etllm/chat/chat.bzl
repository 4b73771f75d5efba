"""llm_chat and llm_answer_test: run a language model's program on this machine."""

load("//rules:providers.bzl", "EtProgramInfo")
load("//rules/private:program_run.bzl", "program_files")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

def _launch(ctx, module, words):
    """Providers of a program or test that runs a module of //tools/etllm/chat with a program."""
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    info = ctx.attr.program[EtProgramInfo]
    named = {f.basename: f for f in ctx.files.tokenizer}
    for name in ("tokenizer.json", "tokenizer_config.json"):
        if name not in named:
            fail("%s: tokenizer = %s has no %s; it has: %s." % (
                ctx.label,
                ctx.attr.tokenizer.label,
                name,
                ", ".join(sorted(named)) or "nothing",
            ))
    run = program_files(ctx.label, info, ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else None)
    own = named.get("chat_template.jinja")
    template = ["--template", own.short_path] if own else []
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        roots = exporter.package_roots,
        words = [
            module,
            "--program",
            info.program.short_path,
            "--manifest",
            info.manifest.short_path,
            "--tokenizer",
            named["tokenizer.json"].short_path,
            "--config",
            named["tokenizer_config.json"].short_path,
        ] + template + [w for f in run.data for w in ("--data", f.short_path)] + words,
        enter = True,
    )
    files = depset(
        [exporter.interpreter] + run.files + ctx.files._tool + ctx.files.tokenizer,
        transitive = [tool_files(ctx), exporter.packages, exporter.python_files],
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

_ATTRIBUTES = {
    "adapter": attr.label(
        providers = [EtProgramInfo],
        doc = "Another program whose own .ptd stands in for the program's: adapter_data = " +
              "\"by_name\".",
    ),
    "program": attr.label(
        mandatory = True,
        providers = [EtProgramInfo],
        doc = "A language model's et_program.",
    ),
    "tokenizer": attr.label(
        allow_files = True,
        mandatory = True,
        doc = "tokenizer.json and tokenizer_config.json, e.g. a gguf_tokenizer.",
    ),
    "_tool": attr.label(default = "//tools/etllm/chat:files", allow_files = True),
} | tool_attributes()

def _llm_chat_impl(ctx):
    return _launch(ctx, "etllm.chat", [])

llm_chat = rule(
    implementation = _llm_chat_impl,
    doc = """A program to `bazel run`: answers a prompt, prints tokens as they come and their speed.

```starlark
llm_chat(name = "llama_chat", program = ":llama_xnnpack", tokenizer = ":tokenizer")
```

`bazel run :llama_chat -- "What is the capital of France?"`
""",
    attrs = _ATTRIBUTES,
    executable = True,
    toolchains = [EXPORTER_TOOLCHAIN],
)

def _llm_answer_test_impl(ctx):
    return _launch(ctx, "etllm.chat.answer_check", ["--expect", ctx.attr.expect, ctx.attr.prompt])

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
    toolchains = [EXPORTER_TOOLCHAIN],
)
