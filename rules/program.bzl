"""et_program: one .pte from a model and a recipe."""

load("//rules:providers.bzl", "EtLoweredInfo", "EtModelInfo", "EtProgramInfo", "EtRecipeInfo")
load("//rules/private:exporter_action.bzl", "exporter_action")
load("//rules/private:link_action.bzl", "link", "report")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "first_repeated")

def _et_program_impl(ctx):
    model = ctx.attr.model[EtModelInfo]
    recipe = ctx.attr.recipe[EtRecipeInfo]
    repeated = first_repeated(ctx.attr.methods)
    if repeated:
        fail("%s: methods lists \"%s\" twice." % (ctx.label, repeated))
    lowered = _lower(ctx, model, recipe)
    program = ctx.actions.declare_file(ctx.label.name + ".pte")
    data = None
    if ctx.attr.weights == "separate":
        data = ctx.actions.declare_file(ctx.label.name + ".ptd")
    summary = ctx.actions.declare_file(ctx.label.name + ".link.json")
    link(ctx, lowered = lowered.directory, program = program, data = data, summary = summary)
    data_files = [data] if data else []
    return [
        DefaultInfo(
            files = depset([program] + data_files),
            runfiles = ctx.runfiles([program] + data_files),
        ),
        OutputGroupInfo(
            report = depset(_report(ctx, lowered, summary)),
            etrecord = depset([_etrecord(ctx, model, recipe)]),
            bundled = depset([_bundled(ctx, model, lowered, program, data)]),
            lowered = depset([lowered.directory]),
        ),
        lowered,
        EtProgramInfo(
            label = ctx.label,
            program = program,
            data_files = depset(data_files),
            lowered = lowered,
            model = model,
            recipe = recipe,
            backends = recipe.backends,
        ),
    ]

def _lower(ctx, model, recipe):
    directory = ctx.actions.declare_directory(ctx.label.name + ".lowered")
    facts = ctx.actions.declare_file(ctx.label.name + ".lowering.json")
    exporter_action(
        ctx,
        command = "lower",
        label = ctx.label,
        model = model,
        recipe = recipe,
        methods = ctx.attr.methods,
        output = directory,
        facts = facts,
        mnemonic = "EtLower",
        progress_message = "Lowering %{label}",
    )
    return EtLoweredInfo(
        label = ctx.label,
        directory = directory,
        facts = facts,
        model = model,
        recipe = recipe,
        methods = ctx.attr.methods,
    )

def _report(ctx, lowered, summary):
    json = ctx.actions.declare_file(ctx.label.name + ".report.json")
    html = ctx.actions.declare_file(ctx.label.name + ".report.html")
    report(
        ctx,
        lowered = lowered.directory,
        facts = lowered.facts,
        summary = summary,
        json = json,
        html = html,
    )
    return [json, html]

def _etrecord(ctx, model, recipe):
    record = ctx.actions.declare_file(ctx.label.name + ".etrecord")
    exporter_action(
        ctx,
        command = "etrecord",
        label = ctx.label,
        model = model,
        recipe = recipe,
        methods = ctx.attr.methods,
        output = record,
        mnemonic = "EtRecord",
        progress_message = "Recording %{label} for devtools",
    )
    return record

def _bundled(ctx, model, lowered, program, data):
    """A bundled program holds one file: where weights are separate, they are embedded for it."""
    if data:
        program = ctx.actions.declare_file(ctx.label.name + ".embedded.pte")
        link(ctx, lowered = lowered.directory, program = program)
    bundled = ctx.actions.declare_file(ctx.label.name + ".bpte")
    exporter_action(
        ctx,
        command = "bundle",
        label = ctx.label,
        model = model,
        recipe = None,
        methods = ctx.attr.methods,
        program = program,
        output = bundled,
        mnemonic = "EtBundleProgram",
        progress_message = "Bundling %{label} with expected outputs",
    )
    return bundled

et_program = rule(
    implementation = _et_program_impl,
    doc = """A program: a model, lowered with a recipe, as one `.pte`.

```python
et_program(
    name = "llama_xnnpack",
    model = ":llama",
    recipe = "@rules_executorch//backends/xnnpack:int8_dynamic_act_int4_weight",
)
```

Outputs: `<name>.pte`, and `<name>.ptd` where the weights are separate. Output groups: `report` (JSON
and a page), `etrecord` (for ExecuTorch's devtools; not reproducible, holds source paths), `bundled`
(a .bpte: the program with inputs and the outputs that the eager model gives), `lowered`.

With embedded weights the file equals, byte for byte, what upstream's `executorch.export` writes for
the same model and recipe.
""",
    attrs = {
        "methods": attr.string_list(
            doc = "The model's methods that become part of the program; default: all.",
        ),
        "model": attr.label(
            mandatory = True,
            providers = [EtModelInfo],
            doc = "The et_model.",
        ),
        "recipe": attr.label(
            mandatory = True,
            providers = [EtRecipeInfo],
            doc = "The et_recipe.",
        ),
        "weights": attr.string(
            default = "embedded",
            values = ["embedded", "separate"],
            doc = "\"embedded\": in the .pte. \"separate\": in <name>.ptd, which the program loads " +
                  "at run time.",
        ),
    },
    provides = [EtProgramInfo, EtLoweredInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)
