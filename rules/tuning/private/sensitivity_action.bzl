"""EtSensitivity: how much each layer's quantization costs. Its page is an action of its own."""

load("//rules/private:exporter_action.bzl", "exporter_action")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/python:paths.bzl", "pair_format", "runfiles_path", "unique")

MeasuredInfo = provider(
    doc = "Costs of a model's layers.",
    fields = {
        "is_text": "Bool: whether they were measured with a text.",
        "sensitivity": "File: JSON.",
    },
)

def sensitivity(ctx, *, label, model, recipe, output, methods, calibration, measured_with):
    """Declares the action EtSensitivity.

    Args:
      ctx: rule context with the exporter toolchain and LOWERING_FLAG.
      label: Label for messages.
      model: LowerableInfo of an eager model.
      recipe: EtRecipeInfo; its tree may have choices, of which all are measured.
      output: File to write: JSON.
      methods: list of strings; empty: all.
      calibration: File of inputs that static recipes are calibrated with, or None: the model's.
      measured_with: struct(inputs, text, tokens, tokenizer, packages): a File of inputs or None, a File of text or
        None, the number of its tokens, Files of the tokenizer's code, and list of EtPackagesInfo that it needs.
        Without inputs and text: the inputs that calibrate, or else the model's.
    """
    with_files = [("--inputs=%s", measured_with.inputs), ("--text=%s", measured_with.text)]
    flags = [(format, file) for format, file in with_files if file]
    flags.append(("--tokens=%s", str(measured_with.tokens)))
    paths = [runfiles_path(file) for file in measured_with.tokenizer]
    flags += [("--source=" + pair_format(path), file) for path, file in zip(paths, measured_with.tokenizer)]

    # The folder that the tokenizer's package is imported from.
    flags += [("--root=%s", root) for root in unique([path.partition("/etllm/")[0] for path in paths])]
    exporter_action(
        ctx,
        command = "sensitivity",
        label = label,
        model = model,
        recipe = recipe,
        methods = methods,
        settings = struct(quantize = "recipe", trained_checkpoint = None, calibration = calibration),
        flags = flags,
        packages = measured_with.packages,
        output = output,
        mnemonic = "EtSensitivity",
        progress_message = "Measuring the layers of %{label}",
    )

def sensitivity_page(ctx, *, measured, page, choice = None):
    """Declares the page of a measurement.

    Args:
      ctx: rule context with the exporter toolchain.
      measured: File: what EtSensitivity wrote.
      page: File to write.
      choice: File: what EtChoose wrote, or None.
    """
    args = ctx.actions.args()
    args.add("--sensitivity", measured)
    args.add("--html", page)
    if choice:
        args.add("--choice", choice)
    linker_action(
        ctx,
        module = "etcli.report.sensitivity",
        arguments = args,
        inputs = [measured] + ([choice] if choice else []),
        outputs = [page],
        mnemonic = "EtReport",
        progress_message = "Reporting on the layers of %{label}",
    )
