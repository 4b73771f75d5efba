"""et_program_test: runs a program and compares it with the eager model."""

load("//rules:providers.bzl", "EtProgramInfo")
load("//rules/private:amounts.bzl", "check_at_least_zero", "check_number")
load("//rules/private:program_run.bzl", "run_beside_model")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "tool_attributes")

def _et_program_test_impl(ctx):
    for name in ("atol", "rtol"):
        check_at_least_zero(ctx.label, name, getattr(ctx.attr, name))
    if ctx.attr.min_sqnr_db:
        check_number(ctx.label, "min_sqnr_db", ctx.attr.min_sqnr_db)
    info = ctx.attr.program[EtProgramInfo]
    flags = ctx.actions.declare_file(ctx.label.name + ".flags")
    words = ["etexport.compare", "--atol", ctx.attr.atol, "--rtol", ctx.attr.rtol]
    words += ["--manifest", info.manifest.short_path]
    if ctx.attr.min_sqnr_db:
        words += ["--min_sqnr_db", ctx.attr.min_sqnr_db]
    return [run_beside_model(
        ctx,
        label = ctx.label,
        program = info,
        flags = flags,
        words = words + ["@" + flags.short_path],
        adapter = ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else None,
    )]

et_program_test = rule(
    implementation = _et_program_test_impl,
    doc = """Runs a program in ExecuTorch's runtime and compares every method with the eager model.

Before anything is loaded, the program and every key of its data files are checked against its
manifest: a missing, damaged or other file fails with the reason.

Each method runs on its example inputs and test inputs; every output element must satisfy
`|got - expected| <= atol + rtol * |expected|`. The message of a failure gives the largest difference and
where it is.

```starlark
et_program_test(name = "llama_test", program = ":llama_xnnpack", atol = "1e-3", rtol = "1e-3")
```
""",
    attrs = {
        "adapter": attr.label(
            providers = [EtProgramInfo],
            doc = "Another program whose own .ptd replaces the program's " +
                  "(adapter_data = \"by_name\"); outputs are compared with its model.",
        ),
        "atol": attr.string(default = "1e-4", doc = "Absolute tolerance, a number."),
        "min_sqnr_db": attr.string(
            doc = "Smallest signal-to-quantization-noise ratio in dB of an output against the eager " +
                  "model; for quantized programs, beside a wide atol.",
        ),
        "program": attr.label(
            mandatory = True,
            providers = [EtProgramInfo],
            doc = "The et_program.",
        ),
        "rtol": attr.string(default = "1e-4", doc = "Relative tolerance, a number."),
    } | tool_attributes(),
    test = True,
    toolchains = [EXPORTER_TOOLCHAIN],
)
