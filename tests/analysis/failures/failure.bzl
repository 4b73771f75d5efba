"""Tests that a rule fails at analysis, with a message."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.expect_failure(env, ctx.attr.message)
    return analysistest.end(env)

_failure_test = analysistest.make(
    _failure_test_impl,
    attrs = {"message": attr.string(mandatory = True)},
    expect_failure = True,
)

def failure_test(*, name, rule, message, part = "", values = {}, **attributes):
    """Declares a target that must fail at analysis, and the test of its message.

    Args:
      name: of the test.
      rule: the rule to instantiate.
      message: what the error must contain.
      part: of a macro's targets, the suffix of the one that fails.
      values: dict of more attributes of the target, whose names a list comprehension has as strings.
      **attributes: of the target.
    """
    rule(
        name = name + ".subject",
        tags = ["manual"],
        **(attributes | values)
    )
    _failure_test(
        name = name,
        message = message,
        target_under_test = name + ".subject" + part,
    )
