"""Tests of et_exported_program and of what is made of it."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtModelInfo")
load("//tests/analysis:actions.bzl", "actions_by_mnemonic")

def _inputs(action):
    return [f.basename for f in action.inputs.to_list()]

def _starting(action, prefix):
    """The words of a command line that start with a prefix, without the folders of their values."""
    return [prefix + word.split("/")[-1] for word in action.argv if word.startswith(prefix)]

def _model_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    asserts.equals(env, target.files.to_list(), target[EtModelInfo].files.to_list())
    info = target[EtModelInfo].lowerable
    asserts.equals(env, "net", info.original.label.name)
    asserts.equals(env, "", info.entry_point)
    asserts.equals(env, ["forward"], info.methods)
    asserts.equals(env, [target.label.name + ".exported"], [f.basename for f in target.files.to_list()])
    asserts.equals(env, target.files.to_list(), [info.programs])
    asserts.equals(env, [], info.sources.to_list() + info.data.to_list())
    asserts.equals(env, info.original.memory_mb, info.memory_mb)
    asserts.equals(env, info.original.packages, info.packages)
    return analysistest.end(env)

exported_program_test = analysistest.make(_model_impl)

def _export_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)
    asserts.equals(env, ["EtExport"], actions.keys())
    (export,) = actions["EtExport"]
    asserts.equals(env, ["etexport", "export"], export.argv[1:3])
    for flag in (
        "--label=//tests/analysis/exported:net_exported",
        "--model_label=//tests/analysis:net",
        "--entry_point=tests.analysis.net:build",
        "--lowering=fast",
        "--method=forward",
    ):
        asserts.true(env, flag in export.argv, "%s is not among %s" % (flag, export.argv))
    asserts.equals(env, [], _starting(export, "--recipe"))
    asserts.true(env, "net.py" in _inputs(export) and "weights.txt" in _inputs(export))
    return analysistest.end(env)

export_action_test = analysistest.make(_export_impl)

def _lowering_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)
    asserts.equals(env, [], actions.get("EtExport", []))

    # A lowering has what was exported, and nothing of the model's code and weights.
    (lower,) = actions["EtLower"]
    asserts.equals(env, ["--programs=net_exported.exported"], _starting(lower, "--programs="))
    for word in ["--entry_point=", "--model_label=//tests/analysis/exported:net_exported"]:
        asserts.true(env, word in lower.argv, "%s is not among %s" % (word, lower.argv))
    for prefix in ("--data=", "--method="):
        asserts.equals(env, [], _starting(lower, prefix))
    for file in ("net.py", "weights.txt"):
        asserts.false(env, file in _inputs(lower), "EtLower depends on " + file)
    asserts.true(env, "net_exported.exported" in _inputs(lower))
    return analysistest.end(env)

lowering_of_exported_test = analysistest.make(_lowering_impl)

def _program_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)

    # What names the source of the eager model has the model itself.
    (record,) = actions["EtRecord"]
    asserts.equals(env, [], _starting(record, "--programs="))
    for word in ("--entry_point=tests.analysis.net:build", "--method=forward"):
        asserts.true(env, word in record.argv, "%s is not among %s" % (word, record.argv))
    asserts.true(env, "weights.txt" in _inputs(record))

    # What compares with the eager model has what that gives.
    (bundle,) = actions["EtBundleProgram"]
    asserts.equals(env, ["--expected=net.expected.safetensors"], _starting(bundle, "--expected="))
    asserts.true(env, "--method=forward" in bundle.argv, "--method=forward is not among %s" % bundle.argv)
    return analysistest.end(env)

program_of_exported_test = analysistest.make(_program_impl)

def _test_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    files = [f.basename for f in target[DefaultInfo].default_runfiles.files.to_list()]
    asserts.true(env, "net.expected.safetensors" in files)
    for file in ("net.py", "weights.txt", "net_exported.exported"):
        asserts.false(env, file in files, "the test depends on " + file)
    return analysistest.end(env)

test_of_exported_test = analysistest.make(_test_impl)
