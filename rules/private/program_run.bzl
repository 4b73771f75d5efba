"""Runs of a program on this machine: their files, and the scripts that start them."""

load("//rules/private:backend_packages.bzl", "emulated_runtime", "recipe_packages", "running_packages")
load("//rules/private:emulation.bzl", "emulated_recipe")
load("//rules/private:exporter_flags.bzl", "add_request", "request_files")
load("//rules/private:given_inputs.bzl", "input_flags")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "runfiles_path", "unique")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_files")
load("//toolchains/runner:runner.bzl", "RUNNER_TOOLCHAIN")

# Of rules that call `running_script`.
RUNNING_TOOLCHAINS = [EXPORTER_TOOLCHAIN, RUNNER_TOOLCHAIN]

def running_script(ctx, script, *, words, layers = [], first_roots = [], enter = False, twin = None):
    """Writes a shell script that runs our Python with the library that runs programs.

    Args:
      ctx: rule context with `tool_attributes` and RUNNING_TOOLCHAINS.
      script: File to write.
      words: the module and its arguments.
      layers: list of EtPackagesInfo that the program's backends and its model need.
      first_roots: import roots before all others, as runfiles paths.
      enter: as for `launcher_script`.
      twin: of `running_program`.

    Returns:
      Depset of Files that the script needs.
    """
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    roots = exporter.package_roots + [root for layer in layers for root in layer.roots]
    emulated = emulated_runtime(ctx.label, layers)
    lists = {
        "ET_EMULATORS": [module for layer in layers for module in layer.emulators],
        "ET_TWIN_LACKS": [twin.lacks] if twin else [],
    } | {name: [text] for layer in layers for name, text in layer.settings.items()}
    paths = {
        "ET_PROGRAMS": [folder for layer in layers for folder in layer.programs],
        "ET_RUNTIME": [runfiles_path(emulated.library)] if emulated else [],
        "ET_RUNTIME_PRELOADS": [runfiles_path(file) for file in emulated.preloads] if emulated else [],
        "ET_RUNTIME_LIBRARIES": [library for layer in layers for library in layer.libraries],
        "ET_RUNTIME_ROOTS": roots,
        "ET_TWIN_OF": [runfiles_path(twin.of.program)] if twin else [],
    } | {name: [path] for layer in layers for name, path in layer.variables.items()}
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        roots = unique(first_roots + roots),
        words = words,
        enter = enter,
        path_variables = {name: value for name, value in paths.items() if value},
        list_variables = {name: value for name, value in lists.items() if value},
        library_paths = [path for layer in layers for path in layer.library_paths],
    )
    return depset([exporter.interpreter] + ([twin.of.program] if twin else []), transitive = [
        tool_files(ctx),
        exporter.packages,
        exporter.light_packages,
        exporter.python_files,
        ctx.toolchains[RUNNER_TOOLCHAIN].files,
    ] + [layer.files for layer in layers])

def program_files(label, program, adapter = None):
    """Collects the files that a run of a program needs.

    Args:
      label: Label of the run, for messages.
      program: EtProgramInfo.
      adapter: EtProgramInfo of another program, whose own .ptd replaces the program's; or None.

    Returns:
      struct(data, files): the .ptd files to load, its own first; all files of the run, with the manifests of the
      program and of the adapter.
    """
    own = adapter or program
    if adapter and not adapter.own_data:
        fail("%s: adapter: %s has no .ptd of its own. Set weights = \"separate\" on it." % (label, adapter.label))
    data = [own.own_data] if own.own_data else []
    data += [shared.data for shared in program.shared_data]
    return struct(
        data = data,
        files = [program.program, program.manifest] + ([adapter.manifest] if adapter else []) + data,
    )

def run_beside_model(ctx, *, running, flags, words, lowers = False, packages = [], tools = []):
    """Declares a script that runs a module of ours with a program and the eager model.

    Args:
      ctx: rule context with `tool_attributes`, EMULATED and RUNNING_TOOLCHAINS.
      running: of `running_program`.
      flags: File to write: the flags of model, program and data, for `etlower.flags`.
      words: list of strings: the module and its arguments.
      lowers: whether the module lowers, too: the flags then have the recipe and its settings.
      packages: list of EtPackagesInfo beside those that the recipe and the model need.
      tools: list of Files: modules beside those of `tool_attributes`.

    Returns:
      DefaultInfo of an executable target.
    """
    program = running.info
    model = program.lowered.model.lowerable
    recipe = program.lowered.recipe if lowers else None
    run = program_files(ctx.label, program)
    args = ctx.actions.args()
    add_request(
        args,
        label = program.label,
        model = model,
        recipe = recipe,
        methods = program.lowered.methods,
        in_runfiles = True,
    )
    args.add(program.program.short_path, format = "--program=%s")
    args.add_all([f.short_path for f in run.data], format_each = "--program_data=%s")
    layers = running_packages(ctx.label, emulated_recipe(ctx), model) + packages
    settings = []
    if lowers:
        settings = _add_settings(args, program.lowered, running.twin)
        layers = {layer.label: layer for layer in recipe_packages(ctx.label, recipe) + layers}.values()
    for format, value in input_flags(model.test_inputs, model.preprocessing):
        args.add(value if type(value) == "string" else value.short_path, format = format)
    ctx.actions.write(flags, args)

    script = ctx.actions.declare_file(ctx.label.name)
    files = depset(
        [flags] + run.files + tools + settings + model.test_inputs,
        transitive = [
            request_files(model = model, recipe = recipe),
            running_script(ctx, script, words = words, layers = layers, enter = True, twin = running.twin),
        ],
    )
    return DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))

def _add_settings(args, lowered, twin):
    """Adds the flags of a lowering's settings.

    Args:
      args: Args to add to.
      lowered: EtLoweredInfo.
      twin: of `running_program`.

    Returns:
      List of Files that they name.
    """
    settings = lowered.settings
    args.add(settings.quantize, format = "--quantize=%s")
    args.add("--lowering=" + lowered.recipe.lowering)
    if twin:
        args.add("--emulated")
    files = {
        "--calibration=%s": settings.calibration,
        "--trained_checkpoint=%s": settings.trained_checkpoint,
    }
    for format, file in files.items():
        if file:
            args.add(file.short_path, format = format)
    return [file for file in files.values() if file]
