"""et_recipe: how a model is quantized, partitioned and lowered, as a target."""

load("@rules_python//python:defs.bzl", "PyInfo")
load("//rules:providers.bzl", "EtBackendInfo", "EtRecipeInfo")
load("//rules/private:inexact.bzl", "check_inexact")
load("//rules/private:options.bzl", "check_option_types", "check_options")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "python_sources", "readable_label", "runfiles_path", "unique")

def _et_recipe_impl(ctx):
    attr = ctx.attr
    if bool(attr.recipes) == bool(attr.builder or attr.base):
        fail(("%s: got %s, expected one of recipes (a list, in order of preference), builder, and base " +
              "(to extend).") % (ctx.label, _given(attr)))
    if attr.builder and attr.builder.count(":") != 1:
        fail(("%s: builder: got \"%s\", expected \"module:function\" such as " +
              "\"my.recipes:build\".") % (ctx.label, attr.builder))
    parents = attr.recipes + ([attr.base] if attr.base else [])
    infos = [p[EtRecipeInfo] for p in parents]
    own_backends = [b[EtBackendInfo] for b in attr.backends]
    overrides = _overrides(ctx, depset(own_backends, transitive = [i.backends for i in infos]))
    used = infos + [o[EtRecipeInfo] for o in attr.overrides.values()]
    check_inexact(readable_label(ctx.label), attr.allow_inexact)
    if attr.allow_inexact and (attr.recipes or (infos and hasattr(infos[0].tree, "recipes"))):
        fail(("%s: allow_inexact: a recipe that combines others takes none. Give it to those that recipes " +
              "lists, with et_recipe(base = …, allow_inexact = …).") % readable_label(ctx.label))
    if attr.recipes and attr.options:
        fail(("%s: a combined recipe takes no options. Give them to those that recipes lists, with " +
              "et_recipe(base = …, options = …).") % ctx.label)
    types = _option_types(ctx, infos)
    check_option_types(readable_label(ctx.label), attr.option_types)
    tree = _tree(ctx, infos)
    check_options(readable_label(ctx.label), attr.options, types)
    python = python_sources(ctx, ctx.files.data)
    return [
        DefaultInfo(files = depset(ctx.files.srcs)),
        EtRecipeInfo(
            label = ctx.label,
            backends = depset(
                own_backends,
                transitive = [i.backends for i in infos],
                order = "preorder",
            ),
            option_types = types,
            sources = depset(transitive = [python.sources] + [i.sources for i in used]),
            roots = unique(python.roots + [r for i in used for r in i.roots]),
            data = depset(ctx.files.data, transitive = [i.data for i in used]),
            tree = _overridden(_allowing(tree, attr.allow_inexact), overrides),
            lowering = "stock" if "stock" in [attr.lowering] + [i.lowering for i in used] else "fast",
        ),
    ]

def _overrides(ctx, backends):
    """The trees of overrides, by pattern; they must be of the recipe's own backends."""
    own = sorted([b.id for b in backends.to_list()])
    for pattern, recipe in ctx.attr.overrides.items():
        where = "%s: overrides: \"%s\"" % (readable_label(ctx.label), pattern)
        if not pattern:
            fail("%s: got an empty pattern, expected one of layers such as \"layers.0\" or \"*.head\"." % where)
        its = sorted([b.id for b in recipe[EtRecipeInfo].backends.to_list()])
        if its != own:
            fail(("%s: got %s of the backends %s, expected a recipe of %s. Layers of one program can have other " +
                  "precisions, but not other backends; to add a backend, list recipes.") %
                 (where, readable_label(recipe.label), ", ".join(its) or "none", ", ".join(own) or "none"))
    return [
        struct(pattern = pattern, recipe = recipe[EtRecipeInfo].tree)
        for pattern, recipe in ctx.attr.overrides.items()
    ]

def _overridden(tree, overrides):
    """A tree with overrides, which are asked before those that it has."""
    if not overrides:
        return tree
    fields = {n: getattr(tree, n) for n in dir(tree) if n not in ("to_json", "to_proto")}
    return struct(**(fields | {"overrides": overrides + getattr(tree, "overrides", [])}))

def _allowing(tree, names):
    """A tree whose recipe, and the one that it extends, may leave operators inexact."""
    if not names:
        return tree
    fields = {n: getattr(tree, n) for n in dir(tree) if n not in ("to_json", "to_proto")}
    base = fields.get("base")
    both = sorted({n: None for n in names + fields.get("allow_inexact", [])})
    return struct(**(fields | {"allow_inexact": both} | ({"base": _allowing(base, names)} if base else {})))

def _given(attr):
    names = [n for n in ("recipes", "builder", "base") if getattr(attr, n)]
    return " and ".join(names) if names else "none of them"

def _option_types(ctx, infos):
    """Types of the options that this recipe takes; None: its builder takes any."""
    types = dict(ctx.attr.option_types)
    if ctx.attr.base:
        if infos[0].option_types == None:
            return None
        types = infos[0].option_types | types
    elif ctx.attr.builder and not types and not ctx.attr.strict_options:
        return None
    return types

def _tree(ctx, infos):
    attr = ctx.attr
    if attr.recipes:
        return struct(label = readable_label(ctx.label), recipes = [i.tree for i in infos])
    if attr.builder:
        base = _base_tree(attr, infos[0]) if attr.base else None
        return struct(
            label = readable_label(ctx.label),
            builder = attr.builder,
            options = getattr(base, "options", {}) | attr.options,
            base = base,
            data = [runfiles_path(f) for f in ctx.files.data],
        )
    return _extended(infos[0].tree, readable_label(ctx.label), attr.options)

def _base_tree(attr, base):
    """Returns the tree that a builder extends, with those of the recipe's options that the base takes."""
    types = base.option_types or {}
    own = {n: v for n, v in attr.options.items() if n in types and n not in attr.option_types}
    return _extended(base.tree, base.tree.label, own)

def _extended(tree, label, options):
    """The base's tree with more options; of a combined recipe each part gets what it takes."""
    if hasattr(tree, "recipes"):
        if options:
            fail(("%s: its base %s combines recipes, and takes no options. Extend the parts, " +
                  "and combine those.") % (label, tree.label))
        return _overridden(struct(label = label, recipes = tree.recipes), getattr(tree, "overrides", []))
    if hasattr(tree, "choices"):
        if options:
            fail(("%s: its base %s chooses from recipes, and takes no options. Give them to those that its " +
                  "choices list, with et_recipe(base = …, options = …).") % (label, tree.label))
        return _overridden(
            struct(label = label, choices = tree.choices, chosen = tree.chosen),
            getattr(tree, "overrides", []),
        )
    extended = struct(
        label = label,
        builder = tree.builder,
        options = tree.options | options,
        base = tree.base,
        data = tree.data,
    )
    extended = _allowing(extended, getattr(tree, "allow_inexact", []))
    return _overridden(extended, getattr(tree, "overrides", []))

et_recipe = rule(
    implementation = _et_recipe_impl,
    doc = """A recipe: how a model is quantized, partitioned and lowered.

One of three kinds:

```starlark
et_recipe(name = "mine", base = "//backends/xnnpack:int8_dynamic_act_int4_weight", options = {"group_size": "64"})
et_recipe(name = "own", backends = ["//backends/xnnpack"], builder = "my.recipes:build", srcs = ["recipes.py"])
et_recipe(name = "both", recipes = ["//backends/coreml:fp16", "//backends/xnnpack:fp32"])
```

With `overrides`, some layers of the model have another precision:

```starlark
et_recipe(
    name = "mixed",
    base = "//backends/xnnpack:int8_dynamic_act_int4_weight",
    overrides = {
        "layers.0": "//backends/xnnpack:fp32",
        "*.lm_head": "//backends/xnnpack:int8_dynamic_per_channel",
    },
)
```

A builder is a Python function that returns an `executorch.export.ExportRecipe`. Its first parameter is an
`etbuild.RecipeContext`. Parameters named like options get their values, `options` gets all options, and `base`
gets the ExportRecipe of the extended recipe.
""",
    attrs = {
        "allow_inexact": attr.string_list(
            doc = "Operators that stay as upstream's delegate computes them, although that isn't what the model " +
                  "says: addmm, bilinear, gelu, reflection_pad. See [exactness](../concepts/exactness.md).",
        ),
        "base": attr.label(
            providers = [EtRecipeInfo],
            doc = "The recipe that this one extends: with options, or with a builder of its own.",
        ),
        "backends": attr.label_list(
            providers = [EtBackendInfo],
            doc = "The backends that a builder's programs may delegate to.",
        ),
        "builder": attr.string(doc = "\"module:function\" that returns an ExportRecipe."),
        "data": attr.label_list(
            allow_files = True,
            doc = "Files that the builder asks for with `RecipeContext.file(\"name\")`.",
        ),
        "deps": attr.label_list(
            cfg = "exec",
            providers = [PyInfo],
            doc = "Python libraries that the builder imports.",
        ),
        "imports": attr.string_list(
            doc = "More import roots, relative to the package, as in py_library.",
        ),
        "lowering": attr.string(
            default = "fast",
            values = ["fast", "stock"],
            doc = "\"stock\" lowers programs with this recipe, and with those that extend it, by upstream's " +
                  "own functions, as `--//rules:lowering=stock` does.",
        ),
        "option_types": attr.string_dict(
            doc = "Options that a builder takes: name to type, which is int, int>=N, int*N (a " +
                  "multiple of N), float, bool, text, or a|b|c (one of them). Without it a " +
                  "builder takes any option.",
        ),
        "options": attr.string_dict(doc = "Values for the recipe's or its base's options."),
        "overrides": attr.string_keyed_label_dict(
            providers = [EtRecipeInfo],
            doc = "Other recipes of the same backends for some layers: pattern to recipe. A pattern is for " +
                  "qualified names of modules, as `model.named_modules()` has them; `*` stands for any text, " +
                  "`?` for one character. It takes a module with all that is in it. Of several patterns that " +
                  "take a layer, the first one counts. A recipe without quantization, such as fp32, leaves " +
                  "the layers as they are. Partitioners of all recipes take part.",
        ),
        "recipes": attr.label_list(
            providers = [EtRecipeInfo],
            doc = "Recipes to combine, in order of preference: operators that the first does not delegate " +
                  "go to the next.",
        ),
        "srcs": attr.label_list(allow_files = [".py"], doc = "Python sources of the builder."),
        "strict_options": attr.bool(
            doc = "Let a builder without option_types take no options, instead of any.",
        ),
    },
    provides = [EtRecipeInfo],
    # Its deps are for the platform that the exporter runs on.
    toolchains = [EXPORTER_TOOLCHAIN],
)
