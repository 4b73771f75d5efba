"""Rules that construct LowerableInfo, for tests of what it refuses."""

load("//rules/private:lowerable.bzl", "LowerableInfo")

def _of_two_kinds_impl(ctx):
    return LowerableInfo(label = ctx.label, entry_point = "net:build", exported = [struct(method = "forward")])

of_two_kinds = rule(implementation = _of_two_kinds_impl, doc = "A model that is code and a .pt2 file.")

def _without_original_impl(ctx):
    return LowerableInfo(label = ctx.label, programs = ctx.actions.declare_directory(ctx.label.name))

without_original = rule(
    implementation = _without_original_impl,
    doc = "Exported programs without the model that they were exported from.",
)

def _of_an_unknown_field_impl(ctx):
    return LowerableInfo(label = ctx.label, entrypoint = "net:build")

of_an_unknown_field = rule(implementation = _of_an_unknown_field_impl, doc = "A model with a misspelled field.")
