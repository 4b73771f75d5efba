"""python_package: a folder of modules that is imported from //tools."""

load("@rules_python//python:defs.bzl", "py_library")

def python_package(name, deps = [], import_root = ".."):
    """Declares a package for actions and for tests.

    Args:
      name: of the package and its folder.
      deps: py_library targets that it imports.
      import_root: folder that it is imported from, seen from it.

    Declares:
      files: all files, as actions take them: a change of them runs those actions again.
      name: the py_library.
    """
    others = ["**/__pycache__/**", "BUILD.bazel"]
    native.filegroup(
        name = "files",
        srcs = native.glob(["**"], exclude = others),
    )
    py_library(
        name = name,
        srcs = native.glob(["**/*.py"]),
        data = native.glob(["**"], allow_empty = True, exclude = others + ["**/*.py"]),
        imports = [import_root],
        deps = deps,
    )
