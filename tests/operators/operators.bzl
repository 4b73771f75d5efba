"""Targets that try operators with a recipe: one for the record, one that compares with it."""

load("//rules:providers.bzl", "EtRecipeInfo")
load("//rules/private:backend_packages.bzl", "recipe_packages", "running_packages")
load("//rules/private:emulation.bzl", "EMULATED_RECIPE")
load("//rules/private:exporter_flags.bzl", "add_recipe")
load("//rules/private:program_run.bzl", "RUNNING_TOOLCHAINS", "running_script")
load("//toolchains/python:paths.bzl", "runfiles_path")
load("//toolchains/python:python_tool.bzl", "tool_attributes")

def _operators_impl(ctx):
    recipe = ctx.attr.recipe[0][EtRecipeInfo]
    flags = ctx.actions.declare_file(ctx.label.name + ".flags")
    args = ctx.actions.args()
    args.set_param_file_format("multiline")
    args.add("--label=//:net")
    add_recipe(args, recipe, in_runfiles = True)
    ctx.actions.write(flags, args)

    layers = {layer.label: layer for layer in recipe_packages(ctx.label, recipe) + running_packages(ctx.label, recipe)}
    words = [ctx.attr.module, "--flags", flags.short_path]
    if ctx.attr.recipe_name:
        words += ["--recipe_name", ctx.attr.recipe_name]
    if ctx.file.record:
        words += ["--record", ctx.file.record.short_path]
    words += ctx.attr.words
    script = ctx.actions.declare_file(ctx.label.name)
    own = ctx.files.srcs + ctx.files._expecttest + [flags] + ctx.files.record
    running = running_script(
        ctx,
        script,
        words = words,
        layers = layers.values(),
        first_roots = ["_main", runfiles_path(ctx.file._expecttest).rpartition("/")[0]],
        enter = True,
    )
    files = depset(own, transitive = [running, recipe.sources, recipe.data])
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

_ATTRIBUTES = {
    "recipe": attr.label(
        cfg = EMULATED_RECIPE,
        mandatory = True,
        providers = [EtRecipeInfo],
        doc = "The et_recipe.",
    ),
    "module": attr.string(
        default = "tests.operators.main",
        doc = "Python module that runs with the recipe's packages.",
    ),
    "recipe_name": attr.string(doc = "Name of the recipe in the record."),
    "record": attr.label(
        allow_single_file = True,
        doc = "The backend's record: what is known makes the run quicker; a test compares with it.",
    ),
    "srcs": attr.label_list(
        allow_files = True,
        mandatory = True,
        doc = "The package tests.operators, and what the module reads.",
    ),
    "words": attr.string_list(doc = "More arguments of the module."),
    "_expecttest": attr.label(
        allow_single_file = True,
        default = Label("@expecttest//:expecttest.py"),
    ),
} | tool_attributes()

operators_run = rule(
    implementation = _operators_impl,
    doc = "Tries operators with a recipe and writes what became of them.",
    attrs = _ATTRIBUTES,
    executable = True,
    toolchains = RUNNING_TOOLCHAINS,
)

operators_test = rule(
    implementation = _operators_impl,
    doc = "Tries some operators with a recipe and compares with the record.",
    attrs = _ATTRIBUTES,
    test = True,
    toolchains = RUNNING_TOOLCHAINS,
)
