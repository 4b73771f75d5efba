"""A rule that constructs LowerableInfo, for a test of what it refuses."""

load("//rules/private:lowerable.bzl", "LowerableInfo")

def _of_an_unknown_field_impl(ctx):
    return LowerableInfo(label = ctx.label, entrypoint = "net:build")

of_an_unknown_field = rule(implementation = _of_an_unknown_field_impl, doc = "A model with a misspelled field.")
