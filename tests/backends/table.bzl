"""The table of recipes in the docs, and the matrix as JSON, made from the recipes' targets."""

load("//rules:providers.bzl", "EtRecipeInfo")
load(":matrix.bzl", "REFUSED", "ROWS", "sqnr")

def _described(tree):
    """A recipe by its builder, which ours are called like, and its options."""
    options = ["%s = %s" % (name, value) for name, value in sorted(tree.options.items())]
    return "`%s`" % " ".join(["//backends/" + tree.builder.replace("_recipes:", ":")] + options)

def _matrix_impl(ctx):
    rows = []
    for row, target in zip(ROWS, ctx.attr.recipes):
        recipe = target[EtRecipeInfo]
        rows.append(struct(
            backend = row.backend,
            recipe = row.recipe,
            nets = row.nets,
            often = row.often,
            llama_options = row.options,
            sqnr_db = {net: sqnr(net, row) for net in row.nets},
            ids = [b.id for b in recipe.backends.to_list()],
            options = recipe.option_types,
            parts = [
                _described(part)
                for part in getattr(recipe.tree, "recipes", [recipe.tree])
            ] if row.backend == "targets" else [],
            builder = getattr(recipe.tree, "builder", ""),
            sources = [f.path for f in recipe.sources.to_list()],
        ))
    output = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(output, json.encode_indent(struct(refused = REFUSED, rows = rows)) + "\n")
    sources = depset(transitive = [t[EtRecipeInfo].sources for t in ctx.attr.recipes])
    return [
        DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output])),
        OutputGroupInfo(sources = sources),
    ]

_matrix = rule(
    implementation = _matrix_impl,
    attrs = {"recipes": attr.label_list(mandatory = True, providers = [EtRecipeInfo])},
)

def matrix(name):
    """`<name>.json`: rows, with what the targets themselves say of options and backends.

    Args:
      name: of the target.
    """
    _matrix(
        name = name,
        recipes = ["//backends/%s:%s" % (row.backend, row.recipe) for row in ROWS],
    )
