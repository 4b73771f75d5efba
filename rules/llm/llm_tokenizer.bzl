"""et_llm_tokenizer: what stands between a language model and text."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "action_environment", "import_root")

_CONFIG = "tokenizer_config.json"
_TEMPLATE = "chat_template.jinja"
_TOKENIZER = "tokenizer.json"

def _run_tool(ctx, module, flags, inputs, outputs):
    """Runs a module of //tools/etllm/tokenizer.

    Args:
      ctx: rule context.
      module: its name.
      flags: dict of flags to the files that it reads or writes.
      inputs: the files that it reads.
      outputs: the files that it writes.
    """
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    args = ctx.actions.args()
    args.add("--path", import_root(ctx.files._tool, "etllm"))
    args.add("etllm.tokenizer." + module)
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

def _from_gguf(ctx, gguf, chat_format):
    config = ctx.actions.declare_file("%s/%s" % (ctx.label.name, _CONFIG))
    tokenizer = ctx.actions.declare_file("%s/%s" % (ctx.label.name, _TOKENIZER))
    outputs = [chat_format, config, tokenizer]
    flags = {"--chat_format": chat_format, "--config": config, "--gguf": gguf, "--output": tokenizer}
    _run_tool(ctx, "tokenizer_from_gguf", flags, [gguf], outputs)
    return outputs

def _from_files(ctx, sources, chat_format):
    flags = {"--config": sources[_CONFIG], "--output": chat_format}
    if _TEMPLATE in sources:
        flags["--template"] = sources[_TEMPLATE]
    _run_tool(ctx, "chat_format", flags, sources.values(), [chat_format])
    outputs = [chat_format]
    for name, source in sources.items():
        copy = ctx.actions.declare_file("%s/%s" % (ctx.label.name, name))
        ctx.actions.symlink(output = copy, target_file = source)
        outputs.append(copy)
    return outputs

def _llm_tokenizer_impl(ctx):
    sources = {}
    for file in ctx.files.srcs:
        if file.basename in (_CONFIG, _TEMPLATE, _TOKENIZER):
            if file.basename in sources:
                fail("%s: srcs: got two files %s, expected one." % (ctx.label, file.basename))
            sources[file.basename] = file
    ggufs = [f for f in ctx.files.srcs if f.extension == "gguf"]
    chat_format = ctx.actions.declare_file(ctx.label.name + "/chat_format.json")
    if not sources and len(ggufs) == 1:
        outputs = _from_gguf(ctx, ggufs[0], chat_format)
    else:
        for name in (_TOKENIZER, _CONFIG):
            if name not in sources:
                fail(("%s: srcs: %s not found. Available: %s. Give the tokenizer's files in Hugging Face's format " +
                      "(et_llm: tokenizer = […]), or a GGUF file that has one.") %
                     (ctx.label, name, ", ".join(sorted([f.basename for f in ctx.files.srcs])) or "nothing"))
        outputs = _from_files(ctx, sources, chat_format)
    return [DefaultInfo(files = depset(outputs), runfiles = ctx.runfiles(outputs))]

et_llm_tokenizer = rule(
    implementation = _llm_tokenizer_impl,
    doc = """The tokenizer of a language model, and its chat template.

The files are `<name>/tokenizer.json`, `<name>/tokenizer_config.json`, `<name>/chat_format.json` and, if
there is one, `<name>/chat_template.jinja`.

```starlark
et_llm_tokenizer(name = "tokenizer", srcs = glob(["qwen3-0.6b/*"]))

et_runner_app(name = "app", data = [":tokenizer"], programs = [":qwen"])
```

`chat_format.json` contains the chat template as plain text, because the runner has no template engine. If a
template does more than put text around messages, the file says why, and the runner needs `--raw_prompt`.
""",
    attrs = {
        "srcs": attr.label_list(
            allow_files = True,
            mandatory = True,
            doc = "A tokenizer.json, a tokenizer_config.json and, if the model has one, a " +
                  "chat_template.jinja; or a GGUF file. Other files are ignored.",
        ),
        "_tool": attr.label(default = "//tools/etllm/tokenizer:files", allow_files = True),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
