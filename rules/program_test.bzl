"""et_program_test: runs a program and compares it with the eager model."""

load("//rules:providers.bzl", "EtPackagesInfo", "EtProgramInfo")
load("//rules/private:amounts.bzl", "check_at_least_zero", "check_number")
load("//rules/private:app_fit.bzl", "check_fit", "fit")
load("//rules/private:backend_packages.bzl", "emulated_runtime", "running_packages")
load("//rules/private:cost_bounds.bzl", "COST_ATTRIBUTES", "cost_bounds")
load("//rules/private:emulation.bzl", "EMULATED", "emulated_recipe", "running_program")
load("//rules/private:expect_action.bzl", "with_expected")
load("//rules/private:given_inputs.bzl", "PREPROCESSING_DOC", "image_packages")
load("//rules/private:lowerable.bzl", "changed")
load("//rules/private:older_runs.bzl", "OLDER_ATTRIBUTES", "older_runs")
load("//rules/private:program_run.bzl", "RUNNING_TOOLCHAINS", "program_files", "running_script")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "readable_label", "repository_root")
load("//toolchains/python:python_tool.bzl", "tool_attributes")
load("//toolchains/runner:runner.bzl", "RUNNER_TOOLCHAIN")
load("//toolchains/runtime:older.bzl", "OLDER_RUNTIMES")

# As in tools/etlower/metrics.py.
_METRICS = ("boxes", "cosine", "tokens", "top1", "word_accuracy")

# Of an element, absolute and relative, unless attributes say otherwise.
_TOLERANCE = "1e-4"

def _et_program_test_impl(ctx):
    for name in ("atol", "rtol"):
        if getattr(ctx.attr, name):
            check_at_least_zero(ctx.label, name, getattr(ctx.attr, name))
    if ctx.attr.min_sqnr_db:
        check_number(ctx.label, "min_sqnr_db", ctx.attr.min_sqnr_db)
    _check_metric(ctx)
    program = running_program(ctx)
    info = program.info
    adapter = ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else None
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    recipe = emulated_recipe(ctx)
    costs = cost_bounds(ctx, recipe)
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
    expected = _expected(ctx, (adapter or ctx.attr.program[EtProgramInfo]).lowered.model.lowerable)

    script = ctx.actions.declare_file(ctx.label.name)
    running = running_script(
        ctx,
        script,
        words = _words(ctx, info, run, expected, _runs_in(layers, exporter)) + older.words + costs.words,
        layers = layers,
        # The folder without torch first: what reads programs finds ExecuTorch's tables there.
        first_roots = exporter.light_roots,
        enter = True,
        twin = program.twin,
    )
    sources = ctx.files.metric_srcs
    files = depset([expected] + run.files + older.files + costs.files + fitted + sources, transitive = [running])
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

def _check_metric(ctx):
    """Fails where attributes of a metric are there without it, or do not fit it."""
    metric = ctx.attr.metric
    if not metric:
        for name in ("decode", "metric_srcs", "min"):
            if getattr(ctx.attr, name):
                fail("%s: %s has no effect without metric. Give a metric, or remove it." % (ctx.label, name))
        return
    if ":" not in metric and metric not in _METRICS:
        fail("%s: metric: got \"%s\", expected one of %s, or \"module:function\" of a file in metric_srcs." %
             (ctx.label, metric, ", ".join(_METRICS)))
    if not ctx.attr.min:
        fail("%s: min is missing. Give the least score, such as \"0.95\"." % ctx.label)
    check_at_least_zero(ctx.label, "min", ctx.attr.min)
    if metric in ("boxes", "word_accuracy") and not ctx.attr.decode:
        fail(("%s: metric = \"%s\" compares what outputs are decoded to: decode is missing. Give decode = " +
              "\"module:function\", which takes the outputs as arrays.") % (ctx.label, metric))
    if ctx.attr.decode and metric not in ("boxes", "tokens", "word_accuracy"):
        fail("%s: decode has no effect with metric = \"%s\". Remove it." % (ctx.label, metric))

def _image_packages(inputs):
    return image_packages(inputs)

def _expected(ctx, model):
    """The outputs of the model, for its own inputs or those of the test."""
    if not ctx.files.inputs:
        if ctx.attr.preprocessing:
            fail("%s: preprocessing has no effect without inputs. Give inputs, or remove it." % ctx.label)
        return model.expected
    given = changed(model, test_inputs = ctx.files.inputs, preprocessing = ctx.attr.preprocessing)
    packages = ctx.attr._image_packages
    return with_expected(ctx, given, [packages[EtPackagesInfo]] if packages else [], instead = True).expected

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
    if ctx.attr.atol or ctx.attr.rtol or not (ctx.attr.min_sqnr_db or ctx.attr.metric):
        words += ["--atol", ctx.attr.atol or _TOLERANCE, "--rtol", ctx.attr.rtol or _TOLERANCE]
    if ctx.attr.min_sqnr_db:
        words += ["--min_sqnr_db", ctx.attr.min_sqnr_db]
    if ctx.attr.metric:
        words += ["--metric", ctx.attr.metric, "--min", ctx.attr.min]
        words += ["--decode", ctx.attr.decode] if ctx.attr.decode else []
        words += ["--root", "../" + repository_root(ctx.label)]
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
        "decode": attr.string(
            doc = "\"module:function\" of a file in metric_srcs. It takes the outputs of a case, a list of NumPy " +
                  "arrays. It returns for \"boxes\" an array of x1, y1, x2, y2 and perhaps the class, for " +
                  "\"tokens\" a list of numbers, for \"word_accuracy\" a text.",
        ),
        "inputs": attr.label_list(
            allow_files = True,
            doc = "Files with inputs, as `test_inputs` of et_model takes them, instead of the model's own.",
        ),
        "metric": attr.string(
            doc = "Score that replaces the tolerances of elements, unless atol, rtol or min_sqnr_db is given, too. " +
                  "\"top1\": the share of rows whose largest element is at the same index; \"cosine\": the least of an " +
                  "output; \"boxes\": the mean IoU; \"tokens\": the share that is the same; \"word_accuracy\": 1 less the " +
                  "word error rate; or \"module:function\" of a file in metric_srcs, which takes two lists of arrays, of " +
                  "the program and of the eager model, and returns a number. More is better.",
        ),
        "metric_srcs": attr.label_list(
            allow_files = [".py"],
            doc = "Python sources of metric and decode. They may import numpy.",
        ),
        "min": attr.string(doc = "With metric: the least mean score of a method's cases, a number such as \"0.95\"."),
        "min_sqnr_db": attr.string(
            doc = "Minimum signal-to-quantization-noise ratio in dB of each output against the eager model. " +
                  "For quantized programs: it replaces the tolerances of elements, unless atol or rtol is given, too.",
        ),
        "preprocessing": attr.string_dict(doc = "With inputs. " + PREPROCESSING_DOC),
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
        "_image_packages": attr.label(default = _image_packages, providers = [EtPackagesInfo]),
    } | COST_ATTRIBUTES | OLDER_ATTRIBUTES | EMULATED | tool_attributes(),
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

    **Bounds on costs.** A test may bound what the program costs on the machine that runs the test:

    ```starlark
    et_program_test(
        name = "llama_cost_test",
        max_instructions = "40e6",
        max_rss_mb = "900",
        program = ":llama_xnnpack",
    )
    ```

    - `max_rss_mb` bounds the peak of the resident memory of the whole process. Python, NumPy and the runtime are
      in it, about 40 MB, and so are the inputs and outputs of all cases.
    - `max_seconds_per_call` bounds the seconds of a method's run, without loading. Of three runs in a row, the
      fastest counts. A busy machine still changes it, so leave room.
    - `max_instructions` bounds the instructions of a method's second run, in user mode and with one thread. They
      hardly change from run to run. The kernel's counter counts them (`perf_event_open`); without one, on Linux on
      x86_64, valgrind does, which Bazel fetches then. Kernels depend on the processor, so set the bound
      from the figure that the test prints on your machines.

    The test prints each figure, and a failure has the method and the input. Programs that an emulator runs have no
    bounds.

    Args:
      name: of the target.
      size: Bazel's size of the test, which sets its time limit: 60 s by default. Large programs need "medium".
      **kwargs: the attributes of the rule, in the table below, and those of all tests.
    """
    et_program_rule_test(name = name, size = size, **kwargs)
