"""llm_tokenizer, gguf_tokenizer and chat_format: what stands between a language model and text."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "action_environment", "import_root")

def _run_tool(ctx, module, inputs, flags, beside = []):
    """Runs a module of //tools/llm.

    Args:
      ctx: rule context.
      module: its name.
      inputs: files that it reads.
      flags: dict of flags to the files that it writes or reads.
      beside: more files of the target.

    Returns:
      The target's providers.
    """
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    outputs = [f for f in flags.values() if f not in inputs]
    args = ctx.actions.args()
    args.add("--path", import_root(ctx.files._tool, "etllm"))
    args.add("etllm.chat." + module)
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
    return [DefaultInfo(files = depset(outputs + beside), runfiles = ctx.runfiles(outputs + beside))]

def _from_gguf(ctx, gguf):
    name = ctx.label.name
    return _run_tool(ctx, "tokenizer_from_gguf", [gguf], {
        "--chat_format": ctx.actions.declare_file(name + "/chat_format.json"),
        "--config": ctx.actions.declare_file(name + "/tokenizer_config.json"),
        "--gguf": gguf,
        "--output": ctx.actions.declare_file(name + "/tokenizer.json"),
    })

def _gguf_tokenizer_impl(ctx):
    return _from_gguf(ctx, ctx.file.gguf)

_FILES = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]

def _llm_tokenizer_impl(ctx):
    found = {}
    for file in ctx.files.srcs:
        if file.basename in _FILES:
            if file.basename in found:
                fail("%s: srcs has two files %s." % (ctx.label, file.basename))
            found[file.basename] = file
    ggufs = [f for f in ctx.files.srcs if f.extension == "gguf"]
    if not found and len(ggufs) == 1:
        return _from_gguf(ctx, ggufs[0])
    for name in _FILES[:2]:
        if name not in found:
            fail(("%s: no %s among: %s. Give the tokenizer's files in Hugging Face's format (et_llm: " +
                  "tokenizer = […]), or a GGUF file that has one.") %
                 (ctx.label, name, ", ".join(sorted([f.basename for f in ctx.files.srcs])) or "nothing"))
    copies = []
    for name in found:
        copy = ctx.actions.declare_file(ctx.label.name + "/" + name)
        ctx.actions.symlink(output = copy, target_file = found[name])
        copies.append(copy)
    flags = {
        "--config": found["tokenizer_config.json"],
        "--output": ctx.actions.declare_file(ctx.label.name + "/chat_format.json"),
    }
    if "chat_template.jinja" in found:
        flags["--template"] = found["chat_template.jinja"]
    return _run_tool(ctx, "chat_format_from_config", found.values(), flags, copies)

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

llm_tokenizer = rule(
    implementation = _llm_tokenizer_impl,
    doc = """The tokenizer of a language model and its form of conversations, whatever file they come in.

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
