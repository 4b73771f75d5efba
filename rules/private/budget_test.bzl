"""et_budget_test: compares variants with the budgets of classes of devices."""

load("//rules/private:backend_packages.bzl", "running_packages")
load("//rules/private:cost_bounds.bzl", "emulated_backends", "valgrind_words")
load("//rules/private:program_run.bzl", "RUNNING_TOOLCHAINS", "program_files", "running_script")
load("//rules/private:providers.bzl", "EtVariantsInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "readable_label")
load("//toolchains/python:python_tool.bzl", "tool_attributes")

def _et_budget_test_impl(ctx):
    variants = ctx.attr.variants[EtVariantsInfo]
    layers = {}
    files = [variants.table]
    listed = []
    for choice in variants.choices:
        program = choice.program
        if emulated_backends(program.recipe):
            continue
        layers |= {layer.label: layer for layer in running_packages(ctx.label, program.recipe)}
        run = program_files(ctx.label, program)
        expected = program.lowered.model.lowerable.expected
        files += run.files + [expected]
        listed.append(struct(
            data = [file.short_path for file in run.data],
            expected = expected.short_path,
            label = readable_label(program.label),
            manifest = program.manifest.short_path,
            methods = program.lowered.methods,
            program = program.program.short_path,
        ))
    programs = ctx.actions.declare_file(ctx.label.name + ".programs.json")
    ctx.actions.write(programs, json.encode(struct(programs = listed)))
    words = ["etlower.budgets", "--label", readable_label(ctx.label), "--table", variants.table.short_path]
    words += ["--programs", programs.short_path] + valgrind_words(ctx.files._valgrind)
    script = ctx.actions.declare_file(ctx.label.name)
    running = running_script(
        ctx,
        script,
        words = words,
        layers = layers.values(),
        first_roots = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter.light_roots,
        enter = True,
    )
    files = depset(files + [programs] + ctx.files._valgrind, transitive = [running])
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

def _valgrind_of(counts_instructions):
    return Label("//toolchains/valgrind") if counts_instructions else None

et_budget_rule_test = rule(
    implementation = _et_budget_test_impl,
    doc = "A test of budgets. `et_variants` declares it.",
    attrs = {
        "counts_instructions": attr.bool(doc = "True: a budget bounds instructions."),
        "variants": attr.label(doc = "The variants.", providers = [EtVariantsInfo]),
        "_valgrind": attr.label(allow_files = True, default = _valgrind_of),
    } | tool_attributes(),
    test = True,
    toolchains = RUNNING_TOOLCHAINS,
)

def et_budget_test(name, **kwargs):
    """Declares the test.

    Args:
      name: of the target.
      **kwargs: the attributes of the rule, and those of all tests.
    """
    et_budget_rule_test(name = name, **kwargs)
