"""Tests of the actions that et_program registers."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")
load("//rules:providers.bzl", "EtProgramInfo")

def _by_mnemonic(env):
    found = {}
    for action in analysistest.target_actions(env):
        found.setdefault(action.mnemonic, []).append(action)
    return found

def _names(files):
    return sorted([f.basename for f in files])

def _program_actions_impl(ctx):
    env = analysistest.begin(ctx)
    actions = _by_mnemonic(env)
    expected = ["EtBundleProgram", "EtLink", "EtLower", "EtRecord", "EtReport"]
    asserts.equals(env, expected, sorted([m for m in actions if m.startswith("Et")]))
    lower = actions["EtLower"][0]
    asserts.equals(
        env,
        ["subject.lowered", "subject.lowering.json"],
        _names(lower.outputs.to_list()),
    )

    # The first words start a worker: nothing of the model; then the request.
    asserts.equals(env, ["etexport", "lower"], lower.argv[1:3])
    for flag in ctx.attr.flags:
        asserts.true(env, flag in lower.argv, "%s is not among %s" % (flag, lower.argv))
    for word in lower.argv:
        path = word.split("=")[-1]
        asserts.false(env, path.startswith("/") and not path.startswith("//"), "absolute: " + word)
    asserts.equals(env, "0", lower.env["PYTHONHASHSEED"])
    asserts.false(env, "PATH" in lower.env or "HOME" in lower.env, "the host's environment leaks")
    asserts.equals(env, 1, len(actions["EtLink"]))
    link = actions["EtLink"][0]
    asserts.equals(env, "etlink", link.argv[1])
    asserts.equals(env, ["subject.link.json", "subject.pte"], _names(link.outputs.to_list()))
    sources = [f.basename for f in lower.inputs.to_list()]
    asserts.true(env, "net.py" in sources, "the model's source is no input")
    link_inputs = [f.basename for f in link.inputs.to_list()]
    asserts.false(env, "net.py" in link_inputs, "EtLink depends on the model's source")
    return analysistest.end(env)

program_actions_test = analysistest.make(
    _program_actions_impl,
    attrs = {"flags": attr.string_list()},
)

def _program_outputs_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    asserts.equals(env, sorted(ctx.attr.default), _names(target[DefaultInfo].files.to_list()))
    groups = target[OutputGroupInfo]
    asserts.equals(env, ["subject.bpte"], [
        n.replace(target.label.name, "subject")
        for n in _names(groups.bundled.to_list())
    ])
    asserts.equals(env, 1, len(groups.etrecord.to_list()))
    asserts.equals(env, 2, len(groups.report.to_list()))
    info = target[EtProgramInfo]
    asserts.equals(env, [n for n in sorted(ctx.attr.default) if n.endswith(".ptd")], _names(info.data_files.to_list()))
    asserts.equals(env, ["XnnpackBackend"], [b.id for b in info.backends.to_list()])
    return analysistest.end(env)

program_outputs_test = analysistest.make(
    _program_outputs_impl,
    attrs = {"default": attr.string_list()},
)
