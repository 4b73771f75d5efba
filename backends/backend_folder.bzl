"""backend_folder: what every folder of //backends has: its Python sources and its locks."""

load("@rules_python//python:defs.bzl", "py_library")

visibility("//backends/...")

_PUBLIC = ["//visibility:public"]

def recipe_sources():
    """The Python sources of the calling package that lower: all but its emulators, which run programs only."""
    return native.glob(["*.py"], exclude = ["*_emulator.py"])

def backend_folder(name = "recipes", deps = []):
    """The targets `:recipes` (a py_library), `:sources`, and `:locks` if there are any.

    Args:
      name: name of the py_library.
      deps: what the builders import besides etbuild.
    """
    native.filegroup(
        name = "sources",
        srcs = native.glob(["*.py"]),
        visibility = _PUBLIC,
    )
    py_library(
        name = name,
        srcs = recipe_sources(),
        imports = ["."],
        visibility = _PUBLIC,
        deps = ["//tools/etbuild"] + deps,
    )

    # What became of each operator: //tests/operators:record writes it.
    records = native.glob(["operators.json"], allow_empty = True)
    if records:
        native.exports_files(records, ["//tests/operators:__pkg__"])

    # Read by the module extension, outside of any build.
    locks = native.glob(["*.txt"], allow_empty = True)
    if locks:
        native.exports_files(locks, _PUBLIC)
        native.filegroup(
            name = "locks",
            srcs = locks,
            visibility = _PUBLIC,
        )
