"""chat_format: a chat template as plain texts, for the runner."""

load("//rules/private:tokenizer_action.bzl", "run_tokenizer_tool")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _chat_format_impl(ctx):
    inputs = [ctx.file.config]
    flags = {
        "--config": ctx.file.config,
        "--output": ctx.actions.declare_file(ctx.label.name + "/chat_format.json"),
    }
    if ctx.file.template:
        inputs.append(ctx.file.template)
        flags["--template"] = ctx.file.template
    return run_tokenizer_tool(ctx, "chat_format_from_config", inputs, flags)

chat_format = rule(
    implementation = _chat_format_impl,
    doc = """`<name>/chat_format.json`: a chat template as plain texts, for the runner, which has no template engine.

```starlark
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
        "_tool": attr.label(default = "//tools/etllm/chat:files", allow_files = True),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
