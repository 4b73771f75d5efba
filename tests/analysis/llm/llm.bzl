"""Tests of what et_llm declares."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts", "unittest")
load("//rules:providers.bzl", "EtAppInfo", "EtAppPackageInfo", "EtModelInfo", "EtProgramInfo")

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

def _package_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[EtAppPackageInfo]
    asserts.equals(env, ctx.attr.apps, [app.label.name for app in info.apps])
    manifests = [a for a in analysistest.target_actions(env) if a.mnemonic == "TemplateExpand"]
    packages = [a.substitutions["%{package}"] for a in manifests]
    asserts.equals(env, [ctx.attr.package] if ctx.attr.package else [], packages)
    return analysistest.end(env)

llm_package_test = analysistest.make(
    _package_impl,
    attrs = {
        "apps": attr.string_list(),
        "package": attr.string(),
    },
)

AttributesInfo = provider(
    doc = "Attributes of a target that all rules have.",
    fields = {
        "exec_properties": "Dict.",
        "features": "List of strings.",
        "target_compatible_with": "List of strings: names of constraints.",
    },
)

def _attributes_aspect_impl(_target, ctx):
    attr = ctx.rule.attr
    return [AttributesInfo(
        exec_properties = attr.exec_properties,
        features = attr.features,
        target_compatible_with = [constraint.label.name for constraint in attr.target_compatible_with],
    )]

_attributes_aspect = aspect(implementation = _attributes_aspect_impl)

def _attributes_impl(ctx):
    env = analysistest.begin(ctx)
    info = analysistest.target_under_test(env)[AttributesInfo]
    asserts.equals(env, {"pool": "large"}, info.exec_properties)
    asserts.equals(env, ctx.attr.cc_features, info.features)
    asserts.equals(env, ctx.attr.constraints, info.target_compatible_with)
    return analysistest.end(env)

llm_attributes_test = analysistest.make(
    _attributes_impl,
    attrs = {
        "cc_features": attr.string_list(),
        "constraints": attr.string_list(),
    },
    extra_target_under_test_aspects = [_attributes_aspect],
)

def _absent_impl(ctx):
    env = unittest.begin(ctx)
    asserts.equals(env, [], ctx.attr.existing)
    return unittest.end(env)

# For names of targets that must not exist: give those that do.
absent_test = unittest.make(_absent_impl, attrs = {"existing": attr.string_list()})
