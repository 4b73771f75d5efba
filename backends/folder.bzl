"""What the folder of every backend has: its Python sources, its locks, its recipes."""

load("@rules_python//python:defs.bzl", "py_library")
load("//rules:defs.bzl", "et_recipe")

_PUBLIC = ["//visibility:public"]

def backend_folder(name = "recipes", deps = []):
    """The targets `:recipes` (a py_library), `:sources`, and `:locks` where there are some.

    Args:
      name: of the py_library.
      deps: what the builders import besides etbuild.
    """
    native.filegroup(
        name = "sources",
        srcs = native.glob(["*.py"]),
        visibility = _PUBLIC,
    )
    py_library(
        name = name,
        srcs = native.glob(["*.py"]),
        imports = ["."],
        visibility = _PUBLIC,
        deps = ["//tools/etbuild"] + deps,
    )

    # Read by the module extension, outside of any build.
    locks = native.glob(["*.txt"], allow_empty = True)
    if locks:
        native.exports_files(locks, _PUBLIC)
        native.filegroup(
            name = "locks",
            srcs = locks,
            visibility = _PUBLIC,
        )

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
            srcs = native.glob(["*.py"]),
            backends = [":" + (backend or name)],
            builder = "%s_recipes:%s" % (name, recipe),
            imports = ["."],
            option_types = options | own,
            strict_options = True,
            visibility = _PUBLIC,
            deps = deps,
        )
