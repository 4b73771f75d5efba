"""et_program_test: runs a program and compares it with the eager model."""

load("//rules:providers.bzl", "EtProgramInfo")
load("//rules/private:backend_packages.bzl", "recipe_packages")
load("//rules/private:exporter_flags.bzl", "add_request", "eager", "request_files")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

def _et_program_test_impl(ctx):
    info = ctx.attr.program[EtProgramInfo]
    adapter = ctx.attr.adapter[EtProgramInfo] if ctx.attr.adapter else info
    if ctx.attr.adapter and not adapter.own_data:
        fail("%s: adapter: %s has no .ptd of its own. Set weights = \"separate\" on it." %
             (ctx.label, adapter.label))
    model = eager(adapter.lowered).model
    data = [adapter.own_data] if adapter.own_data else []
    indexes = [adapter.own_index] if adapter.own_index else []
    for shared in info.shared_data:
        data.append(shared.data)
        indexes.append(shared.index)
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    flags = ctx.actions.declare_file(ctx.label.name + ".flags")
    args = ctx.actions.args()
    add_request(
        args,
        label = ctx.label,
        model = model,
        recipe = None,
        methods = eager(info.lowered).methods,
        in_runfiles = True,
    )
    args.add(info.program.short_path, format = "--program=%s")
    args.add_all([f.short_path for f in data], format_each = "--program_data=%s")
    ctx.actions.write(flags, args)
    script = ctx.actions.declare_file(ctx.label.name)
    tolerances = ["--atol", ctx.attr.atol, "--rtol", ctx.attr.rtol]
    tolerances += ["--manifest", info.manifest.short_path]
    if ctx.attr.min_sqnr_db:
        tolerances += ["--min_sqnr_db", ctx.attr.min_sqnr_db]

    # Some runtimes are the compiler's own libraries.
    packages = recipe_packages(ctx.label, info.recipe, model)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        roots = exporter.package_roots + [root for entry in packages for root in entry.roots],
        words = ["etexport.compare"] + tolerances + ["@" + flags.short_path],
        enter = True,
    )
    files = depset(
        [flags, info.program, info.manifest, exporter.interpreter] + data + indexes,
        transitive = [
            request_files(model = model, recipe = None),
            tool_files(ctx),
            exporter.packages,
            exporter.python_files,
        ] + [entry.files for entry in packages],
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

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
