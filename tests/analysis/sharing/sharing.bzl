"""Tests of the actions and providers of programs that share data."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtProgramInfo", "EtSharedDataInfo")
load("//tests/analysis:actions.bzl", "actions_by_mnemonic")

def _own_inputs(action):
    """Names of the inputs that are the workspace's own."""
    return sorted([
        file.basename
        for file in action.inputs.to_list()
        if file.short_path.startswith("tests/analysis/sharing/")
    ])

def _shared_program_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    actions = actions_by_mnemonic(env)

    # Manifests and the lowered directory, and no weights of the shared files.
    asserts.equals(env, sorted(ctx.attr.link_inputs), _own_inputs(actions["EtLink"][0]))
    words = " ".join(actions["EtLink"][0].argv)
    for flag in ctx.attr.flags:
        asserts.true(env, flag in words, "EtLink lacks %s: %s" % (flag, words))
    info = target[EtProgramInfo]
    asserts.equals(env, sorted(ctx.attr.data), sorted([f.basename for f in info.data_files.to_list()]))
    runfiles = [f.basename for f in target[DefaultInfo].default_runfiles.files.to_list()]
    for name in ctx.attr.data + [info.manifest.basename]:
        asserts.true(env, name in runfiles, "runfiles lack %s" % name)
    default = [f.basename for f in target[DefaultInfo].files.to_list()]
    asserts.false(env, "foundation.ptd" in default, "a shared file is no output of its programs")
    return analysistest.end(env)

shared_program_test = analysistest.make(
    _shared_program_impl,
    attrs = {
        "data": attr.string_list(doc = "Names of the .ptd files."),
        "flags": attr.string_list(doc = "Flags that EtLink's command line must contain."),
        "link_inputs": attr.string_list(doc = "Names of EtLink's inputs in this package."),
    },
)

def _lowering_actions_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)
    counts = {mnemonic: str(len(found)) for mnemonic, found in actions.items()}
    asserts.equals(env, ctx.attr.actions, counts)
    return analysistest.end(env)

lowering_actions_test = analysistest.make(
    _lowering_actions_impl,
    attrs = {"actions": attr.string_dict(doc = "Mnemonic to number of actions.")},
)

def _shared_data_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    actions = actions_by_mnemonic(env)
    asserts.equals(env, ctx.attr.actions, sorted(actions.keys()))
    asserts.equals(env, sorted(ctx.attr.inputs), _own_inputs(actions["EtShare"][0]))
    name = target.label.name
    outputs = sorted([f.basename for f in target[DefaultInfo].files.to_list()])
    asserts.equals(env, [name + ".manifest.json", name + ".ptd"], outputs)
    info = target[EtSharedDataInfo]
    asserts.equals(env, target.label, info.label)
    asserts.equals(env, [name + ".ptd", name + ".manifest.json"], [info.data.basename, info.manifest.basename])
    asserts.equals(env, ctx.attr.lowered, [entry.label.name for entry in info.lowered])
    return analysistest.end(env)

shared_data_test = analysistest.make(
    _shared_data_impl,
    attrs = {
        "actions": attr.string_list(doc = "Mnemonics, sorted."),
        "inputs": attr.string_list(doc = "Names of EtShare's inputs in this package."),
        "lowered": attr.string_list(doc = "Names of the lowered targets."),
    },
)

def _size_test_files_impl(ctx):
    env = analysistest.begin(ctx)
    files = analysistest.target_under_test(env)[DefaultInfo].default_runfiles.files.to_list()
    exporter = [f.basename for f in files if "executorch_exporter" in f.owner.repo_name]
    asserts.true(env, len(exporter) > 0, "the interpreter is missing")
    for name in ("site-packages", "lite"):
        asserts.false(env, name in exporter, "a comparison of two numbers needs no " + name)
    return analysistest.end(env)

size_test_files_test = analysistest.make(_size_test_files_impl)
