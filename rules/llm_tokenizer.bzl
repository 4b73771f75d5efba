"""llm_tokenizer: the tokenizer of a language model and its chat template."""

load("//rules/private:tokenizer_action.bzl", "run_tokenizer_tool", "tokenizer_from_gguf")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

_FILES = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]

def _llm_tokenizer_impl(ctx):
    by_name = {}
    for file in ctx.files.srcs:
        if file.basename in _FILES:
            if file.basename in by_name:
                fail("%s: srcs: got two files %s, expected one." % (ctx.label, file.basename))
            by_name[file.basename] = file
    ggufs = [f for f in ctx.files.srcs if f.extension == "gguf"]
    if not by_name and len(ggufs) == 1:
        return tokenizer_from_gguf(ctx, ggufs[0])
    for name in _FILES[:2]:
        if name not in by_name:
            fail(("%s: srcs: %s not found. Available: %s. Give the tokenizer's files in Hugging Face's format " +
                  "(et_llm: tokenizer = […]), or a GGUF file that has one.") %
                 (ctx.label, name, ", ".join(sorted([f.basename for f in ctx.files.srcs])) or "nothing"))
    copies = []
    for name in by_name:
        copy = ctx.actions.declare_file(ctx.label.name + "/" + name)
        ctx.actions.symlink(output = copy, target_file = by_name[name])
        copies.append(copy)
    flags = {
        "--config": by_name["tokenizer_config.json"],
        "--output": ctx.actions.declare_file(ctx.label.name + "/chat_format.json"),
    }
    if "chat_template.jinja" in by_name:
        flags["--template"] = by_name["chat_template.jinja"]
    return run_tokenizer_tool(ctx, "chat_format_from_config", by_name.values(), flags, copies)

llm_tokenizer = rule(
    implementation = _llm_tokenizer_impl,
    doc = """The tokenizer of a language model and its chat template, whatever file they come in.

The files are `<name>/tokenizer.json`, `<name>/tokenizer_config.json`, `<name>/chat_format.json` and, if
there is one, `<name>/chat_template.jinja`.

```starlark
llm_tokenizer(name = "tokenizer", srcs = glob(["qwen3-0.6b/*"]))
```
""",
    attrs = {
        "srcs": attr.label_list(
            allow_files = True,
            mandatory = True,
            doc = "A tokenizer.json, a tokenizer_config.json and, if the model has one, a " +
                  "chat_template.jinja; or a GGUF file. Other files are left alone.",
        ),
        "_tool": attr.label(default = "//tools/etllm/chat:files", allow_files = True),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
