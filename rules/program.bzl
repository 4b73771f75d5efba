"""et_program: one .pte from a model and a recipe, and what can be run beside it."""

load(
    "//rules:providers.bzl",
    "EtLoweredInfo",
    "EtProgramInfo",
    "EtSharedDataInfo",
)
load("//rules/private:amounts.bzl", "check_amount", "check_percentage")
load("//rules/private:et_commands.bzl", "companions")
load("//rules/private:exporter_action.bzl", "LOWERING_FLAG", "exporter_action")
load("//rules/private:link_action.bzl", "link", "report")
load("//rules/private:lower_action.bzl", "same_lowering")
load("//rules/private:lowerable.bzl", "LowerableInfo")
load("//rules/private:target_lowering.bzl", "declare_lowering")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _et_program_impl(ctx):
    shared = [t[EtSharedDataInfo] for t in ctx.attr.shared_data]
    lowered = _lowered(ctx, shared)
    _check_sharing(ctx)
    if ctx.attr.min_delegated:
        check_percentage(ctx.label, "min_delegated", ctx.attr.min_delegated)
    name = ctx.label.name
    program = ctx.actions.declare_file(name + ".pte")
    manifest = ctx.actions.declare_file(name + ".manifest.json")
    data = None
    if ctx.attr.weights == "separate":
        data = ctx.actions.declare_file(name + ".ptd")
    summary = ctx.actions.declare_file(name + ".link.json")
    link(
        ctx,
        lowered = lowered.directory,
        program = program,
        data = data,
        manifest = manifest,
        summary = summary,
        shared = shared,
        sharing = struct(
            allow_unshared = ctx.attr.allow_unshared,
            own_data = ctx.attr.own_data,
            min_shared = ctx.attr.min_shared,
            adapter_data = ctx.attr.adapter_data,
        ),
        min_delegated = ctx.attr.min_delegated,
        app_operators = ctx.attr.app_operators,
        adapter = lowered.adapter.values if lowered.adapter else None,
    )
    reports = _report(ctx, lowered, summary)
    own = [data] if data else []
    data_files = own + [info.data for info in shared]
    return [
        DefaultInfo(
            files = depset([program] + own),
            runfiles = ctx.runfiles([program, manifest] + data_files),
        ),
        OutputGroupInfo(
            report = depset(reports),
            etrecord = depset([_etrecord(ctx, lowered)]),
            bundled = depset([_bundled(ctx, lowered, program, data_files)]),
            lowered = depset([lowered.directory]),
            manifest = depset([manifest]),
            data = depset(data_files),
        ),
        lowered,
        EtProgramInfo(
            label = ctx.label,
            program = program,
            manifest = manifest,
            own_data = data,
            shared_data = shared,
            summary = summary,
            report = reports[0],
            data_files = depset(data_files),
            lowered = lowered,
            model = lowered.model,
            recipe = lowered.recipe,
            backends = lowered.recipe.backends,
        ),
    ]

def _lowered(ctx, shared):
    """The program's own lowering, or one of the same model and recipe that shared data was made from."""
    own = ctx.attr.lowering[EtLoweredInfo]
    for info in shared:
        for lowered in info.lowered:
            if same_lowering(lowered, own):
                return lowered
    return own

def _check_sharing(ctx):
    if ctx.attr.min_shared:
        check_amount(ctx.label, "min_shared", ctx.attr.min_shared)
    if not ctx.attr.shared_data:
        for name in ("allow_unshared", "min_shared", "own_data"):
            if getattr(ctx.attr, name):
                fail("%s: %s has no effect without shared_data. Give shared_data, or remove it." % (ctx.label, name))
    if ctx.attr.adapter_data == "by_name" and ctx.attr.weights != "separate":
        fail(("%s: adapter_data = \"by_name\" needs a .ptd of the program's own. Set " +
              "weights = \"separate\".") % ctx.label)

def _report(ctx, lowered, summary):
    json = ctx.actions.declare_file(ctx.label.name + ".report.json")
    html = ctx.actions.declare_file(ctx.label.name + ".report.html")
    report(
        ctx,
        lowered = lowered.directory,
        measurements = lowered.measurements,
        summary = summary,
        json = json,
        html = html,
    )
    return [json, html]

def _etrecord(ctx, lowered):
    record = ctx.actions.declare_file(ctx.label.name + ".etrecord")
    exporter_action(
        ctx,
        command = "etrecord",
        label = ctx.label,
        # With the positions in the source, which exported programs do not keep.
        model = lowered.model.lowerable,
        recipe = lowered.recipe,
        methods = lowered.methods,
        settings = lowered.settings,
        output = record,
        mnemonic = "EtRecord",
        progress_message = "Recording %{label} for devtools",
    )
    return record

def _bundled(ctx, lowered, program, data_files):
    """A bundled program holds one file: where weights lie outside, they are embedded for it."""
    if data_files:
        program = ctx.actions.declare_file(ctx.label.name + ".embedded.pte")
        whole = lowered.adapter.whole if lowered.adapter else lowered.directory
        link(ctx, lowered = whole, program = program)
    bundled = ctx.actions.declare_file(ctx.label.name + ".bpte")
    model = lowered.model.lowerable
    exporter_action(
        ctx,
        command = "bundle",
        label = ctx.label,
        # It has run already: none of its files is needed.
        model = LowerableInfo(label = model.label, memory_mb = model.memory_mb),
        recipe = None,
        methods = lowered.methods,
        flags = [("--program=%s", program), ("--expected=%s", model.expected)],
        output = bundled,
        mnemonic = "EtBundleProgram",
        progress_message = "Bundling %{label} with expected outputs",
    )
    return bundled

et_program_rule = rule(
    implementation = _et_program_impl,
    doc = "A program alone. `et_program` declares it and its companions, and its doc describes both.",
    attrs = LOWERING_FLAG | {
        "adapter_data": attr.string(
            default = "by_content",
            values = ["by_content", "by_name"],
            doc = "Keys of the program's own .ptd. \"by_content\": the backends' keys (a sha256). \"by_name\": " +
                  "qualified names of the weights, so that one .pte runs with the .ptd of any program that " +
                  "differs from it only in these weights.",
        ),
        "allow_unshared": attr.bool(
            doc = "Accept a file in shared_data that contains nothing of the program.",
        ),
        "app_operators": attr.string_list(
            doc = "Operators that ExecuTorch's libraries lack and the program's app registers (`kernels` of " +
                  "et_runner_app): \"aten::bincount.out\", or patterns. Other missing operators of " +
                  "ExecuTorch's namespaces fail the build. Operators of your own namespaces need no entry.",
        ),
        "lowering": attr.label(
            cfg = "exec",
            doc = "A lowered program (et_lowering), instead of model and recipe.",
            providers = [EtLoweredInfo],
        ),
        "min_delegated": attr.string(
            doc = "Minimum percentage of each method's FLOPs that backends must run (\"90%\"), or of its " +
                  "nodes if it has no FLOPs. Below it, the build fails and lists the remaining operators " +
                  "with reasons.",
        ),
        "min_shared": attr.string(
            doc = "Minimum of the program's data that must come from shared_data: a percentage (\"95%\") or " +
                  "bytes (\"100000000\", \"100 MB\", \"95 MiB\").",
        ),
        "own_data": attr.string_list(
            doc = "Qualified names, or patterns (\"layers.*.mask\"), of portable weights that stay in the " +
                  "program although a shared file has other weights of these names. Delegates' weights need " +
                  "no entry, because their keys identify their bytes.",
        ),
        "shared_data": attr.label_list(
            providers = [EtSharedDataInfo],
            doc = "Files whose weights the program omits (et_shared_data).",
        ),
        "weights": attr.string(
            default = "embedded",
            values = ["embedded", "separate"],
            doc = "Place of the program's own weights. \"embedded\": into the .pte. " +
                  "\"separate\": into <name>.ptd, which the program loads at run time.",
        ),
    },
    provides = [EtProgramInfo, EtLoweredInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)

def et_program(*, name, lowering = None, **kwargs):
    """A program: a model, lowered with a recipe, as one `.pte`.

    ```starlark
    et_program(
        name = "llama_xnnpack",
        model = ":llama",
        recipe = "@rules_executorch//backends/xnnpack:int8_dynamic_act_int4_weight",
    )
    ```

    Outputs: `<name>.pte`, and `<name>.ptd` if the weights are separate. Output groups: `report` (JSON and a
    page: delegation, accuracy, bytes), `manifest` (what must exist before the program is loaded), `data` (all
    .ptd files that it may load), `etrecord` (for ExecuTorch's devtools; contains source paths, not
    reproducible), `bundled` (a .bpte: the program with test inputs and expected outputs), `lowered`.

    With embedded weights and no shared data, the file has the bytes that upstream's `executorch.export` writes
    for the same model and recipe. A model that writes into buffers, such as a KV cache, is an exception: its program
    writes in place where that is proven right, as with upstream's `run_reinplace_pass`.

    The program and its own .ptd omit what files in `shared_data` contain:

    ```starlark
    et_program(
        name = "assistant",
        model = ":llama_assistant",
        recipe = ":int4",
        shared_data = [":foundation"],
        weights = "separate",    # assistant.ptd: the adapter, and nothing else
        min_shared = "95%",
    )
    ```

    It takes `model`, `recipe`, `methods`, `quantize`, `trained_checkpoint` and `calibration` as et_lowering does.
    `<name>.lowering` lowers the program once for all configurations. Changing `-c`, `--copt`, `--features` or
    `--platforms`, and transitions, link again but lower nothing.

    Three companions have the tag `manual`, so patterns such as `//...` skip them:

    ```sh
    bazel run //x:prog.evaluate -- --text wiki.txt    # perplexity, or outputs, against the eager model
    bazel run //x:prog.benchmark -- --html bench.html # time and memory, by operator and module
    bazel run //x:prog.divergence -- --inputs x.npy   # the module where the numbers part from the eager model's
    ```

    Args:
      name: of the program.
      lowering: instead of model and recipe: label of a lowered program (et_lowering).
      **kwargs: the settings of et_lowering, such as `model` and `recipe`, for a lowering of the program's own; the
        attributes of the rule, in the table below; and those of all rules.
    """
    own_lowering = declare_lowering(
        name,
        kwargs,
        adapter_data = kwargs.get("adapter_data"),
        lowering = lowering,
    )
    et_program_rule(name = name, lowering = own_lowering, **kwargs)
    companions(name, kwargs)
