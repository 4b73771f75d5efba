"""What llm_chat and llm_answer_test have in common: they run a language model's program on this machine."""

load("//rules/private:program_run.bzl", "program_files")
load("//rules/private:providers.bzl", "EtProgramInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

def llm_program(ctx, module, words):
    """Runs a module of //tools/etllm/chat with a program.

    Args:
      ctx: context of a rule with `LLM_PROGRAM_ATTRIBUTES` and the exporter toolchain.
      module: the Python module.
      words: list of strings: arguments of the module, after the program's.

    Returns:
      Providers of an executable target.
    """
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
    run = program_files(ctx.label, info, ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else None)
    own = named.get("chat_template.jinja")
    template = ["--template", own.short_path] if own else []
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        roots = exporter.package_roots,
        words = [
            module,
            "--program",
            info.program.short_path,
            "--manifest",
            info.manifest.short_path,
            "--tokenizer",
            named["tokenizer.json"].short_path,
            "--config",
            named["tokenizer_config.json"].short_path,
        ] + template + [w for f in run.data for w in ("--data", f.short_path)] + words,
        enter = True,
    )
    files = depset(
        [exporter.interpreter] + run.files + ctx.files._tool + ctx.files.tokenizer,
        transitive = [tool_files(ctx), exporter.packages, exporter.python_files],
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

LLM_PROGRAM_ATTRIBUTES = {
    "adapter": attr.label(
        providers = [EtProgramInfo],
        doc = "Another program whose own .ptd stands in for the program's: adapter_data = " +
              "\"by_name\".",
    ),
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
    "_tool": attr.label(default = "//tools/etllm/chat:files", allow_files = True),
} | tool_attributes()
