"""Tests that programs are lowered once, and linked for each configuration."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("@rules_python//python:defs.bzl", "PyInfo")
load("//rules:providers.bzl", "EtExporterInfo", "EtModelInfo", "EtPackagesInfo", "EtProgramInfo", "EtRecipeInfo", "EtSharedDataInfo")

def _paths(target):
    """Paths of what is the same for all configurations."""
    if EtProgramInfo in target:
        lowered = target[EtProgramInfo].lowered
        model, recipe = lowered.model.lowerable, lowered.recipe
        files = model.sources.to_list() + model.data.to_list() + recipe.sources.to_list()
        files += [lowered.measurements] + ([lowered.adapter.values, lowered.adapter.whole] if lowered.adapter else [])
        return [lowered.directory.path] + sorted([file.path for file in files])
    if EtSharedDataInfo in target:
        return [lowered.directory.path for lowered in target[EtSharedDataInfo].lowered]
    return [file.path for file in target[DefaultInfo].files.to_list()]

def _one_lowering_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    paths = _paths(target)
    asserts.true(env, paths[0].endswith(".lowered"), "no lowering: %s" % paths)
    asserts.equals(env, _paths(ctx.attr.plain), paths)
    if EtProgramInfo in target:
        # Links are those of the configuration.
        program = target[EtProgramInfo].program
        asserts.equals(env, target.label.package + "/%s.pte" % target.label.name, program.short_path)
        asserts.false(env, program.path == ctx.attr.plain[EtProgramInfo].program.path, "one link for two configurations")
    return analysistest.end(env)

def _one_lowering_test(settings):
    return analysistest.make(
        _one_lowering_impl,
        attrs = {"plain": attr.label(doc = "The same target, in the build's own configuration.")},
        config_settings = {"//command_line_option:" + name: value for name, value in settings.items()},
    )

compilation_mode_test = _one_lowering_test({"compilation_mode": "opt"})
copt_test = _one_lowering_test({"copt": ["-DSOMETHING"]})
features_test = _one_lowering_test({"features": ["thin_lto"]})
linkopt_test = _one_lowering_test({"linkopt": ["-s"]})
platforms_test = _one_lowering_test({"platforms": [str(Label("//toolchains/platforms:android_arm64"))]})

CONFIGURATION_TESTS = {
    "compilation_mode": compilation_mode_test,
    "copt": copt_test,
    "features": features_test,
    "linkopt": linkopt_test,
    "platforms": platforms_test,
}

# A library of Python that stands for one of a pip hub: it has a wheel for each platform but Android.

def _wheel_impl(ctx):
    return [
        DefaultInfo(files = depset(ctx.files.srcs), runfiles = ctx.runfiles(ctx.files.srcs)),
        PyInfo(imports = depset([ctx.label.name]), transitive_sources = depset(ctx.files.srcs)),
    ]

wheel = rule(
    implementation = _wheel_impl,
    doc = "Stands for a py_library of a pip hub, which has other files for each platform.",
    attrs = {"srcs": attr.label_list(allow_files = [".py"])},
    provides = [PyInfo],
)

def _exec_deps_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    if EtModelInfo in target:
        files = target[EtModelInfo].files
    elif EtRecipeInfo in target:
        files = target[EtRecipeInfo].sources
    elif EtPackagesInfo in target:
        asserts.true(env, [root for root in target[EtPackagesInfo].roots if root == "wheel"])
        files = target[EtPackagesInfo].files
    else:
        files = target[EtExporterInfo].packages
    names = [file.basename for file in files.to_list()]
    asserts.true(env, "net.py" in names, "the wheel of the exporter's platform is missing: %s" % names)
    return analysistest.end(env)

exec_deps_test = analysistest.make(
    _exec_deps_impl,
    config_settings = {
        "//command_line_option:platforms": [str(Label("//toolchains/platforms:android_arm64"))],
    },
)
