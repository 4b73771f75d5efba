"""backend_recipes: an et_recipe for each recipe in a folder of //backends."""

load("//backends:backend_folder.bzl", "recipe_sources")
load("//rules:defs.bzl", "et_recipe")

visibility("//backends/...")

_PUBLIC = ["//visibility:public"]

def backend_recipes(name, recipes, backend = "", options = {}, deps = []):
    """An et_recipe for each of a backend's recipes.

    Args:
      name: of the builders' module, without "_recipes": "coreml".
      recipes: dict of recipe to the options that it takes besides: name to type.
      backend: name of the et_backend; default: `name`.
      options: dict of options that all of them take: name to type.
      deps: what the builders import besides etbuild.
    """
    for recipe, own in recipes.items():
        et_recipe(
            name = recipe,
            srcs = recipe_sources(),
            backends = [":" + (backend or name)],
            builder = "%s_recipes:%s" % (name, recipe),
            imports = ["."],
            option_types = options | own,
            strict_options = True,
            visibility = _PUBLIC,
            deps = deps,
        )
