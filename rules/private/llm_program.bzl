"""What llm_chat and llm_answer_test have in common: they run a language model's program on this machine."""

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
            fail("%s: tokenizer: %s has no %s. Available: %s." % (
                ctx.label,
                ctx.attr.tokenizer.label,
                name,
                ", ".join(sorted(named)) or "nothing",
            ))
    adapter = ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else info
    if ctx.attr.adapter and not adapter.own_data:
        fail("%s: adapter: %s has no .ptd of its own. Set weights = \"separate\" on it." %
             (ctx.label, adapter.label))
    data = ([adapter.own_data] if adapter.own_data else []) + [s.data for s in info.shared_data]
    indexes = [adapter.own_index] if adapter.own_index else []
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
        ] + template + [w for f in data for w in ("--data", f.short_path)] + words,
        enter = True,
    )
    files = depset(
        [info.program, info.manifest, exporter.interpreter] + data + indexes + ctx.files._tool + ctx.files.tokenizer,
        transitive = [tool_files(ctx), exporter.packages, exporter.python_files],
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

LLM_PROGRAM_ATTRIBUTES = {
    "adapter": attr.label(
        providers = [EtProgramInfo],
        doc = "Another program whose own .ptd replaces the program's: adapter_data = " +
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
