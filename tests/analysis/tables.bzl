"""Tables of targets and of failures: one row a target, beside what all of them have."""

load("@bazel_skylib//lib:unittest.bzl", "analysistest", "asserts")

def declare(rule, rows, **common):
    """Declares the targets of a table.

    Args:
      rule: the rule or macro to instantiate.
      rows: dict of a target's name to its attributes.
      **common: attributes of all rows that do not set them.
    """
    for name, attributes in rows.items():
        rule(name = name, **(common | attributes))

def _failure_test_impl(ctx):
    env = analysistest.begin(ctx)
    asserts.expect_failure(env, ctx.attr.message)
    return analysistest.end(env)

_failure_test = analysistest.make(
    _failure_test_impl,
    attrs = {"message": attr.string(mandatory = True)},
    expect_failure = True,
)

def failure_tests(rule, rows, *, prefix = "", **common):
    """Declares targets that must fail at analysis, and the tests of their messages.

    Args:
      rule: the rule or macro to instantiate.
      rows: dict of a test's name to what the error must contain, and the attributes of the target. The attribute
        `part` is the suffix of the one of a macro's targets that fails.
      prefix: the beginning of all messages.
      **common: attributes of all rows that do not set them.
    """
    for name, (message, attributes) in rows.items():
        attributes = common | attributes
        part = attributes.pop("part", "")
        rule(name = name + ".subject", tags = ["manual"], **attributes)
        _failure_test(name = name, message = prefix + message, target_under_test = name + ".subject" + part)
