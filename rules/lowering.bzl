"""et_lowering: a model lowered once, for a program and for its shared data."""

load("//rules:providers.bzl", "EtLoweredInfo", "EtModelInfo", "EtRecipeInfo")
load("//rules/private:lower_action.bzl", "lower", "lowering_attributes")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")

def _et_lowering_impl(ctx):
    lowered = lower(
        ctx,
        model = ctx.attr.model[EtModelInfo],
        recipe = ctx.attr.recipe[EtRecipeInfo],
    )
    return [
        DefaultInfo(files = depset([lowered.directory])),
        OutputGroupInfo(lowered = depset([lowered.directory])),
        lowered,
    ]

et_lowering = rule(
    implementation = _et_lowering_impl,
    doc = """A model, lowered with a recipe, and not yet linked.

Lower a base program and its shared data once:

```starlark
et_lowering(name = "base", model = ":llama", recipe = ":int4")
et_shared_data(name = "foundation", lowerings = [":base"])
et_program(name = "llama", lowering = ":base", shared_data = [":foundation"])
```

Output: a directory with the program's tables, one file for each weight (named by its sha256) and an
index.
""",
    attrs = lowering_attributes(mandatory = True, what = "lowering"),
    provides = [EtLoweredInfo],
    toolchains = [EXPORTER_TOOLCHAIN],
)
