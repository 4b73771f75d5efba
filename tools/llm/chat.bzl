"""llm_chat: talks with a language model's program on this machine."""

load("//rules:providers.bzl", "EtProgramInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "runfiles_path")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

def _llm_chat_impl(ctx):
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
    if info.data_files.to_list():
        fail("%s: the program %s has separate weights; chat with one that embeds them." %
             (ctx.label, info.label))
    tool = [f for f in ctx.files._tool if f.basename == "chat.py"][0]
    root = runfiles_path(tool)
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        roots = [root[:root.rindex("/")]] + exporter.package_roots,
        words = [
            "chat",
            "--program",
            info.program.short_path,
            "--tokenizer",
            named["tokenizer.json"].short_path,
            "--config",
            named["tokenizer_config.json"].short_path,
        ],
        enter = True,
    )
    files = depset(
        [info.program, exporter.interpreter] + ctx.files._tool + ctx.files.tokenizer,
        transitive = [tool_files(ctx), exporter.packages, exporter.python_files],
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

llm_chat = rule(
    implementation = _llm_chat_impl,
    doc = """A program to `bazel run`: answers a prompt, prints tokens as they come and their speed.

```python
llm_chat(name = "llama_chat", program = ":llama_xnnpack", tokenizer = ":tokenizer")
```

`bazel run :llama_chat -- "What is the capital of France?"`
""",
    attrs = {
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
        "_tool": attr.label(default = "//tools/llm:files", allow_files = True),
    } | tool_attributes(),
    executable = True,
    toolchains = [EXPORTER_TOOLCHAIN],
)
