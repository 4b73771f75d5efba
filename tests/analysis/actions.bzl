"""Tests of the actions that et_program registers."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")

def actions_by_mnemonic(env):
    """The actions of ours that a target registers.

    Args:
      env: of the analysis test.

    Returns:
      Dict of mnemonic to list of actions.
    """
    found = {}
    for action in analysistest.target_actions(env):
        if action.mnemonic.startswith("Et"):
            found.setdefault(action.mnemonic, []).append(action)
    return found

def _outputs(action):
    return sorted([f.basename for f in action.outputs.to_list()])

def _inputs(action):
    return [f.basename for f in action.inputs.to_list()]

def _lower_action_impl(ctx):
    env = analysistest.begin(ctx)
    lower = actions_by_mnemonic(env)["EtLower"][0]
    name = analysistest.target_under_test(env).label.name.removesuffix(".lowering")
    asserts.equals(env, [name + ".lowered", name + ".timings.json"], _outputs(lower))

    # The first words start a worker: nothing of the model; then the request.
    asserts.equals(env, ["etlower", "lower"], lower.argv[1:3])
    for flag in ctx.attr.flags:
        asserts.true(env, flag in lower.argv, "%s is not among %s" % (flag, lower.argv))
    for prefix in ctx.attr.absent:
        found = [word for word in lower.argv if word.startswith(prefix)]
        asserts.equals(env, [], found)
    for word in lower.argv:
        path = word.split("=")[-1]
        asserts.false(env, path.startswith("/") and not path.startswith("//"), "absolute: " + word)

    # The launcher of the tool sets what there is.
    asserts.equals(env, {}, lower.env)
    for file in ctx.attr.inputs:
        asserts.true(env, file in _inputs(lower), "%s is no input" % file)
    return analysistest.end(env)

_LOWER_ATTRIBUTES = {
    "absent": attr.string_list(doc = "Prefixes that no word may have."),
    "flags": attr.string_list(doc = "Words that must be there."),
    "inputs": attr.string_list(doc = "Names of files that must be inputs."),
}

lower_action_test = analysistest.make(_lower_action_impl, attrs = _LOWER_ATTRIBUTES)

# The same with `--//rules:lowering=stock`.
stock_lower_action_test = analysistest.make(
    _lower_action_impl,
    attrs = _LOWER_ATTRIBUTES,
    config_settings = {str(Label("//rules:lowering")): "stock"},
)

def _launcher_impl(ctx):
    env = analysistest.begin(ctx)
    name = analysistest.target_under_test(env).label.name
    (script,) = [
        action
        for action in analysistest.target_actions(env)
        if [f.basename for f in action.outputs.to_list()] == [name]
    ]
    for line in ["export PYTHONHASHSEED=\"${PYTHONHASHSEED:-0}\"", "export OMP_NUM_THREADS=\"1\"", "export PYTHONNOUSERSITE=\"1\""]:
        asserts.true(env, line in script.content.split("\n"), "%s is not in %s" % (line, script.content))
    return analysistest.end(env)

def _model_actions_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)
    asserts.equals(env, {"EtExpect": 1}, {mnemonic: len(found) for mnemonic, found in actions.items()})
    (expect,) = actions["EtExpect"]
    name = analysistest.target_under_test(env).label.name
    asserts.equals(env, ["etlower", "expect"], expect.argv[1:3])
    asserts.equals(env, [name + ".expected.safetensors"], _outputs(expect))
    for flag in ctx.attr.flags:
        asserts.true(env, flag in expect.argv, "%s is not among %s" % (flag, expect.argv))
    for file in ctx.attr.inputs:
        asserts.true(env, file in _inputs(expect), "%s is no input" % file)

    # Programs of all recipes have the same, so it knows none of them.
    for prefix in ("--recipe", "--method", "--lowering", "--program"):
        asserts.equals(env, [], [word for word in expect.argv if word.startswith(prefix)])
    asserts.false(env, "xnnpack_recipes.py" in _inputs(expect), "EtExpect depends on a recipe's source")
    return analysistest.end(env)

model_actions_test = analysistest.make(
    _model_actions_impl,
    attrs = {
        "flags": attr.string_list(doc = "Words that must be there."),
        "inputs": attr.string_list(doc = "Names of files that must be inputs."),
    },
)

def _expected_of(target):
    """Lists paths of files, in a test's runfiles, that the test compares a program with."""
    files = target[DefaultInfo].default_runfiles.files.to_list()
    return [f.path for f in files if f.path.endswith(".expected.safetensors")]

def _compared_impl(ctx):
    env = analysistest.begin(ctx)
    target = analysistest.target_under_test(env)
    expected = _expected_of(target)
    asserts.equals(env, [ctx.attr.expected], [path.rpartition("/")[2] for path in expected])
    for other in ctx.attr.others:
        asserts.equals(env, expected, _expected_of(other), "%s compares with another file" % other.label)

    # The model's action, and none of the test: tolerances are words of its script.
    asserts.equals(env, {}, actions_by_mnemonic(env))
    (script,) = [
        action
        for action in analysistest.target_actions(env)
        if [f.basename for f in action.outputs.to_list()] == [target.label.name]
    ]
    for word in ctx.attr.words:
        asserts.true(env, "  '%s'" % word in script.content, "%s is not in %s" % (word, script.content))
    for word in ctx.attr.absent:
        asserts.false(env, "  '%s'" % word in script.content, "%s is in %s" % (word, script.content))
    files = [f.basename for f in target[DefaultInfo].default_runfiles.files.to_list()]
    asserts.false(env, "net.py" in files, "a test runs the model's code")
    return analysistest.end(env)

compared_test = analysistest.make(
    _compared_impl,
    attrs = {
        "absent": attr.string_list(doc = "Words that the script does not have."),
        "expected": attr.string(doc = "Name of the file with what the eager model gives."),
        "others": attr.label_list(doc = "Tests that compare with the same file."),
        "words": attr.string_list(doc = "Words of the script."),
    },
)

# What our Python programs are started with.
launcher_test = analysistest.make(_launcher_impl)

def _program_actions_impl(ctx):
    env = analysistest.begin(ctx)
    actions = actions_by_mnemonic(env)
    counts = {mnemonic: len(found) for mnemonic, found in actions.items()}
    wanted = {"EtBundleProgram": 1, "EtLink": ctx.attr.links, "EtRecord": 1, "EtReport": 1}
    asserts.equals(env, wanted, counts)
    for link in actions["EtLink"]:
        asserts.equals(env, "etlink", link.argv[1])
        asserts.false(env, "net.py" in _inputs(link), "EtLink depends on the model's source")
    asserts.equals(env, sorted(ctx.attr.linked), _outputs(actions["EtLink"][0]))

    record = actions["EtRecord"][0]
    asserts.equals(env, ["etlower", "etrecord"], record.argv[1:3])

    # What a bundle adds is in the eager model's file: it needs neither the model nor a recipe.
    bundle = actions["EtBundleProgram"][0]
    asserts.false(env, "net.py" in _inputs(bundle), "EtBundleProgram depends on the model's source")
    expected = [word.split("/")[-1] for word in bundle.argv if word.startswith("--expected=")]
    asserts.equals(env, ["net.expected.safetensors"], expected)
    asserts.equals(env, ["etlower", "bundle"], bundle.argv[1:3])
    asserts.equals(env, [], [word for word in bundle.argv if word.startswith("--recipe")])
    program = [word for word in bundle.argv if word.startswith("--program=")]
    asserts.equals(env, [ctx.attr.bundled], [word.split("/")[-1] for word in program])

    # A report never waits for a lowering of its own.
    report = actions["EtReport"][0]
    asserts.equals(env, "etcli.report.program", report.argv[1])
    asserts.false(env, "net.py" in _inputs(report), "EtReport depends on the model's source")
    return analysistest.end(env)

program_actions_test = analysistest.make(
    _program_actions_impl,
    attrs = {
        "bundled": attr.string(doc = "Name of the program that is bundled."),
        "linked": attr.string_list(doc = "Names of the first EtLink's outputs."),
        "links": attr.int(doc = "Number of EtLink actions."),
    },
)
