"""Parts of a recipe for a device."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtRecipeInfo")

def _part(tree):
    return " ".join([tree.builder] + ["%s=%s" % o for o in sorted(tree.options.items())])

def _parts(tree):
    """"builder option=value …" of each part of a recipe, in order of preference."""
    return [_part(part) for part in getattr(tree, "recipes", [tree])]

def _target_recipe_test_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtRecipeInfo]
    asserts.equals(env, ctx.attr.parts, _parts(info.tree))
    backends = [backend.label.name for backend in info.backends.to_list()]
    asserts.equals(env, ctx.attr.backends, backends)
    return analysistest.end(env)

target_recipe_test = analysistest.make(
    _target_recipe_test_impl,
    attrs = {
        "backends": attr.string_list(mandatory = True),
        "parts": attr.string_list(mandatory = True),
    },
)
