"""Runs of a program in ExecuTorch's Python runtime: their files, and scripts that compare it with its model."""

load("//rules/private:backend_packages.bzl", "recipe_packages")
load("//rules/private:exporter_flags.bzl", "add_request", "request_files")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_files")

def program_files(label, program, adapter = None):
    """Collects the files that a run of a program needs.

    Args:
      label: Label of the run, for messages.
      program: EtProgramInfo.
      adapter: EtProgramInfo of another program, whose own .ptd replaces the program's; or None.

    Returns:
      struct(data, files): the .ptd files to load, its own first; all files of the run, with the manifest
      and the indexes that it names.
    """
    own = adapter or program
    if adapter and not adapter.own_data:
        fail("%s: adapter: %s has no .ptd of its own. Set weights = \"separate\" on it." % (label, adapter.label))
    pairs = [(own.own_data, own.own_index)] if own.own_data else []
    pairs += [(shared.data, shared.index) for shared in program.shared_data]
    return struct(
        data = [data for data, _ in pairs],
        files = [program.program, program.manifest] + [file for pair in pairs for file in pair if file],
    )

def run_beside_model(ctx, *, label, program, flags, words, packages = [], tools = []):
    """Declares a script that runs a module of ours with a program and the eager model.

    Args:
      ctx: rule context with `tool_attributes` and the exporter toolchain.
      label: Label for messages.
      program: EtProgramInfo.
      flags: File to write: the flags of model, program and data, for `etlower.flags`.
      words: list of strings: the module and its arguments.
      packages: list of EtPackagesInfo beside those that the recipe and the model need.
      tools: list of Files: modules beside those of `tool_attributes`.

    Returns:
      DefaultInfo of an executable target.
    """
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    model = program.lowered.model.lowerable
    run = program_files(ctx.label, program)
    args = ctx.actions.args()
    add_request(
        args,
        label = label,
        model = model,
        recipe = None,
        methods = program.lowered.methods,
        in_runfiles = True,
    )
    args.add(program.program.short_path, format = "--program=%s")
    args.add_all([f.short_path for f in run.data], format_each = "--program_data=%s")
    ctx.actions.write(flags, args)

    # Some runtimes are the compiler's own libraries.
    layers = recipe_packages(ctx.label, program.recipe, model) + packages
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        roots = exporter.package_roots + [root for layer in layers for root in layer.roots],
        words = words,
        enter = True,
    )
    files = depset(
        [flags, exporter.interpreter] + run.files + tools,
        transitive = [
            request_files(model = model, recipe = None),
            tool_files(ctx),
            exporter.packages,
            exporter.python_files,
        ] + [layer.files for layer in layers],
    )
    return DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))
