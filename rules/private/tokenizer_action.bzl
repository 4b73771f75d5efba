"""EtTokenizer: tokenizers and chat templates, as the runner reads them."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "action_environment", "import_root")

def run_tokenizer_tool(ctx, module, inputs, flags, beside = []):
    """Runs a module of //tools/etllm/chat.

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

def tokenizer_from_gguf(ctx, gguf):
    """Declares the files of a tokenizer that a GGUF file holds.

    Args:
      ctx: rule context.
      gguf: File.

    Returns:
      The target's providers.
    """
    name = ctx.label.name
    return run_tokenizer_tool(ctx, "tokenizer_from_gguf", [gguf], {
        "--chat_format": ctx.actions.declare_file(name + "/chat_format.json"),
        "--config": ctx.actions.declare_file(name + "/tokenizer_config.json"),
        "--gguf": gguf,
        "--output": ctx.actions.declare_file(name + "/tokenizer.json"),
    })
