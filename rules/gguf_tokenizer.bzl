"""gguf_tokenizer: a tokenizer out of a GGUF file."""

load("//rules/private:tokenizer_action.bzl", "tokenizer_from_gguf")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _gguf_tokenizer_impl(ctx):
    return tokenizer_from_gguf(ctx, ctx.file.gguf)

gguf_tokenizer = rule(
    implementation = _gguf_tokenizer_impl,
    doc = """A tokenizer out of a GGUF file.

The files are `<name>/tokenizer.json`, `<name>/tokenizer_config.json` and `<name>/chat_format.json`,
the chat template for the runner.

```starlark
gguf_tokenizer(name = "tokenizer", gguf = "@smollm2//:model.gguf")
```
""",
    attrs = {
        "gguf": attr.label(
            allow_single_file = [".gguf"],
            mandatory = True,
            doc = "The model's file, written with its tokenizer.",
        ),
        "_tool": attr.label(default = "//tools/etllm/chat:files", allow_files = True),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
