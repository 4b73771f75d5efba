"""Actions that need torch, such as EtLower and EtExpect. One worker serves them all."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("//rules/private:backend_packages.bzl", "add_packages", "recipe_packages")
load("//rules/private:exporter_flags.bzl", "add_request", "placeholder_flag", "request_files")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "action_environment")

# Without supports-path-mapping, which Bazel 7 does not apply to the tools of its workers: none would start with
# `--experimental_output_paths=strip`. It would save nothing, as lowerings have one configuration anyway.
_REQUIREMENTS = {
    "requires-worker-protocol": "json",
    "supports-multiplex-sandboxing": "1",
    "supports-multiplex-workers": "1",
    "supports-worker-cancellation": "1",
    "supports-workers": "1",
    # Bazel starts workers for each mnemonic apart unless told otherwise.
    "worker-key-mnemonic": "EtLower",
}

# Of a rule whose actions lower or export: whether upstream's functions have faster replacements.
LOWERING_FLAG = {
    "_lowering": attr.label(default = Label("//rules:lowering"), providers = [BuildSettingInfo]),
}

def exporter_action(
        ctx,
        *,
        command,
        label,
        model,
        recipe,
        methods,
        output,
        mnemonic,
        progress_message,
        settings = None,
        measurements = None,
        flags = [],
        packages = [],
        placeholders = []):
    """Runs the exporter.

    Args:
      ctx: rule context with the exporter toolchain, and with LOWERING_FLAG for what quantizes or lowers.
      command: of etlower.flags: "lower", "expect" and so on.
      label: Label for messages.
      model: LowerableInfo.
      recipe: EtRecipeInfo, or None.
      methods: list of strings; empty: all.
      output: File that the command writes.
      mnemonic: of the action.
      progress_message: of the action.
      settings: struct(quantize, trained_checkpoint, calibration) of a lowering, or None.
      measurements: File for seconds, memory and accuracy, or None.
      flags: list of pairs (format, value) of the command: ("--program=%s", File). Files become inputs.
      packages: list of EtPackagesInfo beside those that the recipe and the model need.
      placeholders: list of struct(file, placeholder) that the command compares with the files.
    """
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter

    # What a worker is started with: nothing of the model, so that one serves all programs of a backend.
    start = ctx.actions.args()
    start.add("etlower")
    holders = add_packages(start, recipe_packages(label, recipe, model) + packages)
    args = ctx.actions.args()
    args.use_param_file("@%s", use_always = True)
    args.add(command)
    args.add_all([output], expand_directories = False, format_each = "--output=%s")
    outputs = [output]
    if measurements:
        args.add(measurements, format = "--timings=%s")
        outputs.append(measurements)
    for format, value in flags:
        args.add(value, format = format)
    inputs = [value for _, value in flags if type(value) == "File"]
    if settings:
        args.add(settings.quantize, format = "--quantize=%s")
        if settings.trained_checkpoint:
            args.add(settings.trained_checkpoint, format = "--trained_checkpoint=%s")
            inputs.append(settings.trained_checkpoint)
        if settings.calibration:
            args.add(settings.calibration, format = "--calibration=%s")
            inputs.append(settings.calibration)
    args.add_all(placeholders, map_each = placeholder_flag, format_each = "--placeholder=%s")
    inputs = inputs + [pair.placeholder for pair in placeholders]
    if recipe:
        lowering = ctx.attr._lowering[BuildSettingInfo].value
        args.add("--lowering=%s" % ("stock" if recipe.lowering == "stock" else lowering))
    add_request(args, label = label, model = model, recipe = recipe, methods = methods)

    ctx.actions.run(
        executable = exporter.lowering_tool,
        arguments = [start, args],
        inputs = depset(
            inputs,
            transitive = [request_files(model = model, recipe = recipe)],
        ),
        # In the worker's key, which sees the environment's folders by name only.
        tools = [exporter.stamp, exporter.interpreter] + holders,
        outputs = outputs,
        mnemonic = mnemonic,
        progress_message = progress_message,
        env = action_environment(ctx),
        execution_requirements = _REQUIREMENTS,
        resource_set = _resources(model.memory_mb),
        toolchain = EXPORTER_TOOLCHAIN,
    )

# Bazel asks a function of the number of inputs, which can't see a model: one function a size.
def _small(_os, _inputs):
    return {"cpu": 1, "memory": 1500}

def _medium(_os, _inputs):
    return {"cpu": 1, "memory": 4000}

def _large(_os, _inputs):
    return {"cpu": 1, "memory": 8000}

def _huge(_os, _inputs):
    return {"cpu": 1, "memory": 16000}

def _enormous(_os, _inputs):
    return {"cpu": 1, "memory": 64000}

def _resources(memory_mb):
    """The smallest of the sizes that holds a lowering of `memory_mb` MiB."""
    for limit, function in [(1500, _small), (4000, _medium), (8000, _large), (16000, _huge)]:
        if memory_mb <= limit:
            return function
    return _enormous
