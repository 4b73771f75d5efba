"""backend_emulator: a module in Python that runs a backend's programs on this machine."""

load("@rules_python//python:defs.bzl", "py_library")
load("//toolchains/exporter:packages.bzl", "et_packages")

visibility("//backends/...")

def backend_emulator(name, title = "", srcs = [], deps = []):
    """The et_packages of an emulator, for `et_backend(emulator = …)`.

    Args:
      name: of the target, and of the module, which has a function `install()` (runner.emulated).
      title: what runs the programs, for logs of tests; empty: other packages of the emulator name it.
      srcs: more files of it.
      deps: py_library targets that it imports.
    """
    py_library(
        name = name + ".library",
        srcs = [name + ".py"] + srcs,
        imports = ["."],
        visibility = ["//tests:__subpackages__"],
        deps = deps,
    )
    et_packages(
        name = name,
        emulators = [name],
        stamp = name + ".py",
        title = title,
        visibility = ["//visibility:public"],
        deps = [name + ".library"],
    )
