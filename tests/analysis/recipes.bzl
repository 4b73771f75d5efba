"""Tests of EtRecipeInfo."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtRecipeInfo")
load(":actions.bzl", "actions_by_mnemonic")

def _ids(info):
    return [b.id for b in info.backends.to_list()]

def _extended_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRecipeInfo]
    asserts.equals(env, "//tests/analysis:" + ctx.label.name.removesuffix("_test"), info.tree.label)
    asserts.equals(env, "xnnpack_recipes:int8_dynamic_act_int4_weight", info.tree.builder)
    asserts.equals(env, ctx.attr.options, info.tree.options)
    asserts.equals(env, None, info.tree.base)
    asserts.equals(
        env,
        {"enable_bf16": "bool", "group_size": "int*32", "share_mutable_buffers": "bool"},
        info.option_types,
    )
    asserts.equals(env, ["XnnpackBackend"], _ids(info))
    asserts.true(env, "xnnpack_recipes.py" in [f.basename for f in info.sources.to_list()])
    asserts.true(env, "_main/backends/xnnpack" in info.roots, "roots: %s" % info.roots)
    return analysistest.end(env)

extended_recipe_test = analysistest.make(
    _extended_impl,
    attrs = {"options": attr.string_dict(doc = "Options merged along the chain of bases.")},
)

def _rebuilt_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRecipeInfo]

    # A builder gets its base's options, too; the base gets those that it takes.
    asserts.equals(env, "tests.analysis.net:recipe", info.tree.builder)
    asserts.equals(env, {"bits": "4", "group_size": "128"}, info.tree.options)
    asserts.equals(env, "xnnpack_recipes:int8_dynamic_act_int4_weight", info.tree.base.builder)
    asserts.equals(env, {"group_size": "128"}, info.tree.base.options)
    asserts.equals(env, ["_main/tests/analysis/weights.txt"], info.tree.data)
    asserts.equals(env, ["weights.txt"], [f.basename for f in info.data.to_list()])
    asserts.equals(
        env,
        {"bits": "int>=2", "enable_bf16": "bool", "group_size": "int*32", "share_mutable_buffers": "bool"},
        info.option_types,
    )
    asserts.equals(env, ["", "XnnpackBackend"], _ids(info))
    return analysistest.end(env)

rebuilt_recipe_test = analysistest.make(_rebuilt_impl)

def _combined_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRecipeInfo]
    asserts.equals(
        env,
        ["xnnpack_recipes:fp32", "portable_recipes:fp32"],
        [part.builder for part in info.tree.recipes],
    )
    asserts.equals(
        env,
        ["//backends/xnnpack:fp32", "//backends/portable:fp32"],
        [part.label for part in info.tree.recipes],
    )
    asserts.equals(env, ["XnnpackBackend", ""], _ids(info))
    return analysistest.end(env)

combined_recipe_test = analysistest.make(_combined_impl)

def _own_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRecipeInfo]
    asserts.equals(env, None, info.option_types)
    asserts.equals(env, {"anything": "goes"}, info.tree.options)
    asserts.true(env, "_main" in info.roots, "roots: %s" % info.roots)
    return analysistest.end(env)

own_recipe_test = analysistest.make(_own_impl)

def _tuned_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRecipeInfo]
    asserts.equals(env, ["fp32", "int8_dynamic_act_int4_weight"], [c.label.split(":")[1] for c in info.tree.choices])
    asserts.equals(env, "_main/tests/analysis/%s.chosen.json" % ctx.attr.choice, info.tree.chosen)
    asserts.equals(env, [ctx.attr.choice + ".chosen.json"], [f.basename for f in info.data.to_list()])
    asserts.equals(env, {}, info.option_types)
    asserts.equals(env, ["XnnpackBackend"], _ids(info))
    return analysistest.end(env)

tuned_recipe_test = analysistest.make(
    _tuned_impl,
    attrs = {"choice": attr.string(doc = "Name of the tuned recipe, which another one may extend.")},
)

def _choose_action_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)
    asserts.equals(env, ["EtChoose", "EtReport"], sorted(actions.keys()))
    choose = actions["EtChoose"][0]
    asserts.equals(env, ["tuned.sensitivity.json"], [
        f.basename
        for f in choose.inputs.to_list()
        if f.extension == "json" and f.basename.startswith("tuned")
    ])
    asserts.true(env, "--max_bytes" in choose.argv and "20 kB" in choose.argv, "%s" % choose.argv)
    return analysistest.end(env)

choose_action_test = analysistest.make(_choose_action_impl)

def _sensitivity_action_impl(ctx):
    env = analysistest.begin(ctx)
    measure = actions_by_mnemonic(env)["EtSensitivity"][0]
    for flag in ("--label=//tests/analysis:tuned.sensitivity", "--tokens=256"):
        asserts.true(env, flag in measure.argv, "%s is not among %s" % (flag, measure.argv))

    # Another bound must measure nothing again.
    asserts.false(env, "20 kB" in " ".join(measure.argv), "the bound is part of the measurement")
    return analysistest.end(env)

sensitivity_action_test = analysistest.make(_sensitivity_action_impl)
