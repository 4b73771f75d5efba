"""gguf_tokenizer: a Hugging Face tokenizer out of a GGUF file."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "ENVIRONMENT")

def _gguf_tokenizer_impl(ctx):
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    tokenizer = ctx.actions.declare_file(ctx.label.name + "/tokenizer.json")
    config = ctx.actions.declare_file(ctx.label.name + "/tokenizer_config.json")
    program = [f for f in ctx.files._tool if f.basename == "tokenizer_from_gguf.py"][0]
    args = ctx.actions.args()
    args.add("--path", program.dirname)
    args.add("tokenizer_from_gguf")
    args.add("--gguf", ctx.file.gguf)
    args.add("--output", tokenizer)
    args.add("--config", config)
    ctx.actions.run(
        executable = exporter.lowering_tool,
        arguments = [args],
        inputs = [ctx.file.gguf],
        tools = ctx.files._tool + [exporter.stamp],
        outputs = [tokenizer, config],
        mnemonic = "EtTokenizer",
        progress_message = "Making the tokenizer %{label}",
        env = ENVIRONMENT,
        toolchain = EXPORTER_TOOLCHAIN,
    )
    files = [tokenizer, config]
    return [DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files))]

gguf_tokenizer = rule(
    implementation = _gguf_tokenizer_impl,
    doc = """`<name>/tokenizer.json` and `<name>/tokenizer_config.json` out of a GGUF file.

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
