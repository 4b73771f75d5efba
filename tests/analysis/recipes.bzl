"""Tests of EtRecipeInfo."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtRecipeInfo")

def _extended_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRecipeInfo]
    asserts.equals(env, {"group_size": "64"}, info.tree.options)
    asserts.equals(env, "xnnpack_recipes:int8_dynamic_act_int4_weight", info.tree.builder)
    asserts.equals(env, "//tests/analysis:extended", info.tree.label)
    asserts.equals(env, ["XnnpackBackend"], [b.id for b in info.backends.to_list()])
    asserts.true(env, "xnnpack_recipes.py" in [f.basename for f in info.sources.to_list()])
    return analysistest.end(env)

extended_recipe_test = analysistest.make(_extended_impl)

def _combined_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRecipeInfo]
    asserts.equals(
        env,
        ["xnnpack_recipes:fp32", "portable_recipes:fp32"],
        [part.builder for part in info.tree.recipes],
    )
    asserts.equals(env, ["XnnpackBackend", ""], [b.id for b in info.backends.to_list()])
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
