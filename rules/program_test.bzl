"""et_program_test: runs a program and compares it with the eager model."""

load("//rules:providers.bzl", "EtProgramInfo")
load("//rules/private:amounts.bzl", "check_at_least_zero", "check_number")
load("//rules/private:app_fit.bzl", "check_fit", "fit")
load("//rules/private:backend_packages.bzl", "emulated_runtime", "running_packages")
load("//rules/private:emulation.bzl", "EMULATED", "emulated_recipe", "running_program")
load("//rules/private:older_runs.bzl", "OLDER_ATTRIBUTES", "older_runs")
load("//rules/private:program_run.bzl", "RUNNING_TOOLCHAINS", "program_files", "running_script")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "readable_label")
load("//toolchains/python:python_tool.bzl", "tool_attributes")
load("//toolchains/runner:runner.bzl", "RUNNER_TOOLCHAIN")
load("//toolchains/runtime:older.bzl", "OLDER_RUNTIMES")

# Of an element, absolute and relative, unless attributes say otherwise.
_TOLERANCE = "1e-4"

def _et_program_test_impl(ctx):
    for name in ("atol", "rtol"):
        if getattr(ctx.attr, name):
            check_at_least_zero(ctx.label, name, getattr(ctx.attr, name))
    if ctx.attr.min_sqnr_db:
        check_number(ctx.label, "min_sqnr_db", ctx.attr.min_sqnr_db)
    program = running_program(ctx)
    info = program.info
    adapter = ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else None
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    recipe = emulated_recipe(ctx)
    layers = running_packages(ctx.label, recipe)
    run = program_files(ctx.label, info, adapter)
    emulated = emulated_runtime(ctx.label, layers)
    check_fit(
        ctx,
        programs = [info],
        runtime = (emulated or ctx.toolchains[RUNNER_TOOLCHAIN]).runtime,
        exporter_version = exporter.executorch_version,
        running = recipe.backends.to_list(),
    )
    older = older_runs(ctx, info, layers)

    # Another platform's runtime is checked like an app's, operators of payloads too.
    fitted = [fit(ctx, programs = [info], runtime = emulated.runtime, kernels = [], etdump = False).json] if emulated else []

    # The program's own model, where a twin runs: the eager model runs once.
    expected = (adapter or ctx.attr.program[EtProgramInfo]).lowered.model.lowerable.expected

    script = ctx.actions.declare_file(ctx.label.name)
    running = running_script(
        ctx,
        script,
        words = _words(ctx, info, run, expected, _runs_in(layers, exporter)) + older.words,
        layers = layers,
        # The folder without torch first: what reads programs finds ExecuTorch's tables there.
        first_roots = exporter.light_roots,
        enter = True,
        twin = program.twin,
    )
    files = depset([expected] + run.files + older.files + fitted, transitive = [running])
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

def _runs_in(layers, exporter):
    """Names what computes on this machine, for people."""
    titles = [layer.title for layer in layers if layer.title]
    return " and ".join(titles) or "ExecuTorch " + exporter.executorch_version

def _words(ctx, info, run, expected, runs_in):
    words = ["etlower.compare", "--label", readable_label(ctx.label), "--runs_in", runs_in]
    words += ["--program", info.program.short_path, "--manifest", info.manifest.short_path]
    for file in run.data:
        words += ["--program_data", file.short_path]
    words += ["--expected", expected.short_path]
    for method in info.lowered.methods:
        words += ["--method", method]
    if ctx.attr.atol or ctx.attr.rtol or not ctx.attr.min_sqnr_db:
        words += ["--atol", ctx.attr.atol or _TOLERANCE, "--rtol", ctx.attr.rtol or _TOLERANCE]
    if ctx.attr.min_sqnr_db:
        words += ["--min_sqnr_db", ctx.attr.min_sqnr_db]
    if ctx.attr.allow_weak_slices:
        words.append("--allow_weak_slices")
    return words

et_program_rule_test = rule(
    implementation = _et_program_test_impl,
    doc = "A program's test. `et_program_test` declares it.",
    attrs = {
        "adapter": attr.label(
            providers = [EtProgramInfo],
            doc = "Another program whose own .ptd replaces the program's (adapter_data = \"by_name\"). The " +
                  "test compares outputs with its model.",
        ),
        "allow_weak_slices": attr.bool(
            doc = "Accept a dead part of an output, such as a channel that is 0 where the eager model's " +
                  "is not.",
        ),
        "atol": attr.string(doc = "Absolute tolerance, a number; default: \"1e-4\"."),
        "min_sqnr_db": attr.string(
            doc = "Minimum signal-to-quantization-noise ratio in dB of each output against the eager model. " +
                  "For quantized programs: it replaces the tolerances of elements, unless atol or rtol is given, too.",
        ),
        "program": attr.label(
            mandatory = True,
            providers = [EtProgramInfo],
            doc = "The et_program.",
        ),
        "rtol": attr.string(doc = "Relative tolerance, a number; default: \"1e-4\"."),
        "runtimes": attr.string_list(
            doc = "Older versions of ExecuTorch whose runtimes must give the eager model's outputs, too, e.g. " +
                  "[\"1.3.1\", \"1.4.1\"]. Bundled are %s; `executorch.older_runtime` declares others." %
                  ", ".join(sorted(OLDER_RUNTIMES)),
        ),
    } | OLDER_ATTRIBUTES | EMULATED | tool_attributes(),
    test = True,
    toolchains = RUNNING_TOOLCHAINS,
)

def et_program_test(name, size = "small", **kwargs):
    """Runs a program in ExecuTorch's runtime and compares every method with the eager model.

    First, the test checks the program and each key of its data files against the manifest. A missing, damaged or
    wrong file fails the test with the reason.

    Each method runs on its example inputs and test inputs; every output element must satisfy
    `|got - expected| <= atol + rtol * |expected|`. A failure reports the largest difference and its position.
    `min_sqnr_db` compares each output as a whole instead, by its signal-to-quantization-noise ratio.
    A method that changes its module's state, such as a KV cache, also runs three times in a row on each input.

    ```starlark
    et_program_test(name = "llama_test", program = ":llama_xnnpack", atol = "1e-3", rtol = "1e-3")
    ```

    One number for an output hides its parts: a detector's head in 8 bits can have 41 dB while each of its scores is
    0. So the test also looks along each axis of each output. It fails where rows are constant and the eager model's
    vary, or where their signal-to-noise ratio is below 10 dB and 20 dB below the output's. The message has the place:
    `output 0, dim 1, rows 4 to 8`. `allow_weak_slices = True` allows it.

    The eager model runs once, in the action `EtExpect`, for the tests of all its programs. A test runs the program by
    the C interface that apps use, with ExecuTorch's whole runtime for this machine. zig compiles that library once, for
    tests, chats, benchmarks and `et` alike. If the runtime has no backend of that name, the build fails and names the
    platforms that have it. A backend whose runtime is in a Python package, such as OpenVINO, finds it by its
    et_packages (`library_paths`); one of your own is a library that registers itself (`libraries`).

    **Older runtimes.** With `runtimes`, the test runs the program on ExecuTorch's own wheels of those versions, too. It
    prints one table: the largest difference to the eager model, the time to load (ms), and the peak of what loading and
    running add to the process's memory (MB).

    ```starlark
    et_program_test(
        name = "llama_older_test",
        program = ":llama_xnnpack",
        runtimes = ["1.3.1", "1.4.1"],
    )
    ```

    A failure names the version. If a version lacks an operator, a backend or a part of the schema that the program uses,
    the build fails and names the oldest version that has it. Older runtimes run on Linux on x86_64: each is a
    library of its own. Bazel fetches a wheel only if a test names it.

    Args:
      name: of the target.
      size: Bazel's size of the test, which sets its time limit: 60 s by default. Large programs need "medium".
      **kwargs: the attributes of the rule, in the table below, and those of all tests.
    """
    et_program_rule_test(name = name, size = size, **kwargs)
