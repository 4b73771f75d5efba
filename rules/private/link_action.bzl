"""Actions without torch: EtLink and EtReport."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "ENVIRONMENT")

def linker_action(
        ctx,
        *,
        module,
        arguments,
        inputs,
        outputs,
        mnemonic,
        progress_message,
        execution_requirements = {}):
    """Runs a torch-free program of ours.

    Args:
      ctx: rule context with the exporter toolchain.
      module: the Python module.
      arguments: Args.
      inputs: list of Files.
      outputs: list of Files.
      mnemonic: of the action.
      progress_message: of the action.
      execution_requirements: of the action.
    """
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    start = ctx.actions.args()
    start.add(module)
    ctx.actions.run(
        executable = exporter.linking_tool,
        arguments = [start, arguments],
        inputs = inputs,
        tools = [exporter.stamp],
        outputs = outputs,
        mnemonic = mnemonic,
        progress_message = progress_message,
        env = ENVIRONMENT,
        execution_requirements = execution_requirements,
        toolchain = EXPORTER_TOOLCHAIN,
    )

def link(ctx, *, lowered, program, data = None, summary = None):
    """EtLink: a .pte, and a .ptd if asked for.

    Args:
      ctx: rule context.
      lowered: File: the directory of EtLower.
      program: File: the .pte to write.
      data: File: the .ptd to write, or None: the weights are embedded.
      summary: File: JSON to write, or None.
    """
    args = ctx.actions.args()
    args.add_all("--lowered", [lowered], expand_directories = False)
    args.add("--program", program)
    outputs = [program]
    for flag, file in [("--data", data), ("--summary", summary)]:
        if file:
            args.add(flag, file)
            outputs.append(file)
    linker_action(
        ctx,
        module = "etlink",
        arguments = args,
        inputs = [lowered],
        outputs = outputs,
        mnemonic = "EtLink",
        progress_message = "Linking %{output}",
        # Its blobs are in the cache already, once for all programs; linking again costs seconds.
        execution_requirements = {"no-cache": "1"},
    )

def report(ctx, *, lowered, facts, summary, json, html):
    """EtReport: what a program consists of, as JSON and as a page.

    Args:
      ctx: rule context.
      lowered: File: the directory of EtLower.
      facts: File: seconds and memory of EtLower.
      summary: File: what EtLink wrote.
      json: File to write.
      html: File to write.
    """
    args = ctx.actions.args()
    args.add_all("--lowered", [lowered], expand_directories = False)
    args.add("--facts", facts)
    args.add("--summary", summary)
    args.add("--json", json)
    args.add("--html", html)
    linker_action(
        ctx,
        module = "etlink.report",
        arguments = args,
        inputs = [lowered, facts, summary],
        outputs = [json, html],
        mnemonic = "EtReport",
        progress_message = "Reporting on %{label}",
    )
