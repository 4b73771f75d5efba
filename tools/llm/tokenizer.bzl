"""gguf_tokenizer and chat_format: what stands between a language model and text."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "action_environment")

def _run_tool(ctx, module, inputs, flags):
    """Runs a module of //tools/llm; `flags` is a dict of flags to the files that it writes or reads."""
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    program = [f for f in ctx.files._tool if f.basename == module + ".py"][0]
    outputs = [f for f in flags.values() if f not in inputs]
    args = ctx.actions.args()
    args.add("--path", program.dirname)
    args.add(module)
    for flag, file in flags.items():
        args.add(flag, file)
    ctx.actions.run(
        executable = exporter.lowering_tool,
        arguments = [args],
        inputs = inputs,
        tools = ctx.files._tool + [exporter.stamp],
        outputs = outputs,
        mnemonic = "EtTokenizer",
        progress_message = "Making the tokenizer %{label}",
        env = action_environment(ctx),
        toolchain = EXPORTER_TOOLCHAIN,
    )
    return [DefaultInfo(files = depset(outputs), runfiles = ctx.runfiles(outputs))]

def _gguf_tokenizer_impl(ctx):
    name = ctx.label.name
    return _run_tool(ctx, "tokenizer_from_gguf", [ctx.file.gguf], {
        "--chat_format": ctx.actions.declare_file(name + "/chat_format.json"),
        "--config": ctx.actions.declare_file(name + "/tokenizer_config.json"),
        "--gguf": ctx.file.gguf,
        "--output": ctx.actions.declare_file(name + "/tokenizer.json"),
    })

def _chat_format_impl(ctx):
    inputs = [ctx.file.config]
    flags = {
        "--config": ctx.file.config,
        "--output": ctx.actions.declare_file(ctx.label.name + "/chat_format.json"),
    }
    if ctx.file.template:
        inputs.append(ctx.file.template)
        flags["--template"] = ctx.file.template
    return _run_tool(ctx, "chat_format_from_config", inputs, flags)

gguf_tokenizer = rule(
    implementation = _gguf_tokenizer_impl,
    doc = """A tokenizer out of a GGUF file.

The files are `<name>/tokenizer.json`, `<name>/tokenizer_config.json` and `<name>/chat_format.json`,
the form of conversations for the runner.

```python
gguf_tokenizer(name = "tokenizer", gguf = "@smollm2//:model.gguf")
```
""",
    attrs = {
        "gguf": attr.label(
            allow_single_file = [".gguf"],
            mandatory = True,
            doc = "The model's file, written with its tokenizer.",
        ),
        "_tool": attr.label(default = "//tools/llm:files", allow_files = True),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)

chat_format = rule(
    implementation = _chat_format_impl,
    doc = """`<name>/chat_format.json`: a chat template as plain texts, for the runner, which has no template engine.

```python
chat_format(name = "chat", config = "tokenizer_config.json")

et_runner_app(name = "app", data = ["tokenizer.json", ":chat"], programs = [":llama"])
```

A template that does more than putting text around what is said needs a template engine: the file then says
why there is no format, and the runner takes such a model's prompts with `--raw_prompt` only.
""",
    attrs = {
        "config": attr.label(
            allow_single_file = [".json"],
            mandatory = True,
            doc = "A Hugging Face tokenizer_config.json.",
        ),
        "template": attr.label(
            allow_single_file = [".jinja"],
            doc = "A chat_template.jinja, for models that have it in a file of its own.",
        ),
        "_tool": attr.label(default = "//tools/llm:files", allow_files = True),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
