"""Tests of what et_llm declares."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtAppInfo", "EtModelInfo", "EtProgramInfo")

def _model_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtModelInfo].lowerable
    asserts.equals(env, sorted(ctx.attr.data), sorted([f.basename for f in info.data.to_list()]))
    asserts.equals(env, "etllm.entry:build", info.entry_point)
    asserts.equals(env, ctx.attr.model_args, info.args)
    return analysistest.end(env)

llm_model_test = analysistest.make(
    _model_impl,
    attrs = {
        "model_args": attr.string_dict(),
        "data": attr.string_list(),
    },
)

def _program_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtProgramInfo]
    asserts.equals(env, ctx.attr.backends, [b.id for b in info.backends.to_list()])
    asserts.equals(env, ctx.attr.recipe, info.recipe.label.name)
    asserts.equals(env, ctx.attr.model, info.model.label.name)
    asserts.equals(env, sorted(ctx.attr.data), sorted([f.basename for f in info.data_files.to_list()]))
    return analysistest.end(env)

llm_program_test = analysistest.make(
    _program_impl,
    attrs = {
        "backends": attr.string_list(),
        "data": attr.string_list(),
        "model": attr.string(),
        "recipe": attr.string(),
    },
)

def _app_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtAppInfo]
    asserts.equals(env, ctx.attr.programs, [p.label.name for p in info.programs])
    asserts.equals(env, ctx.attr.platform, info.platform)
    names = ["chat_format.json", "tokenizer.json", "tokenizer_config.json"]
    asserts.equals(env, names, sorted([f.basename for f in info.assets]))
    return analysistest.end(env)

llm_app_test = analysistest.make(
    _app_impl,
    attrs = {
        "platform": attr.string(),
        "programs": attr.string_list(),
    },
)
