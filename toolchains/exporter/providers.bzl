"""Providers of the exporter toolchain and of layers of packages."""

EtExporterInfo = provider(
    doc = "The Python environment that lowers and links. Created by `et_exporter`.",
    fields = {
        "lowering_tool": "FilesToRunProvider: runs modules that need torch.",
        "linking_tool": "FilesToRunProvider: runs modules that don't.",
        "stamp": "File whose contents name the environment; part of a worker's key.",
        "interpreter": "File: the Python interpreter.",
        "python_files": "Depset of Files: what the interpreter needs, its standard library.",
        "packages": "Depset of Files: torch, executorch and what they need.",
        "package_roots": "List of strings: their import roots, as runfiles paths.",
        "light_packages": "Depset of Files: what tools without torch need; no more than `packages`.",
        "light_roots": "List of strings: their import roots, as runfiles paths.",
        "executorch_version": "String.",
        "torch_version": "String.",
        "metadata_files": "Depset of Files: METADATA of each package, for SBOMs.",
    },
)

EtPackagesInfo = provider(
    doc = "Python packages, programs or an SDK that a backend needs. Created by `et_packages`.",
    fields = {
        "label": "Label of the target.",
        "holder": "FilesToRunProvider: does nothing, and has the files as runfiles.",
        "files": "Depset of Files.",
        "stamp": "File whose contents change with the packages.",
        "stamp_path": "String: runfiles path of the stamp.",
        "roots": "List of strings: import roots, as runfiles paths.",
        "programs": "List of strings: folders for PATH, as runfiles paths.",
        "variables": "Dict of environment variable to runfiles path.",
        "libraries": "List of strings: shared libraries that register backends or operators, as runfiles paths.",
        "library_paths": "List of strings: folders where a backend looks for libraries when it runs, as runfiles paths.",
        "emulators": "List of strings: Python modules that run backends or operators in the device's place.",
        "title": "String: what runs programs by these packages, for people; empty: nothing does.",
        "runtime": "ToolchainInfo of what runs programs in place of this machine's runtime (`library`, `preloads`, `files`, " +
                   "`runtime`), or None.",
        "settings": "Dict of environment variable to text, for runs.",
        "missing": "String: why they cannot be used; empty: they can.",
        "metadata_files": "Depset of Files: METADATA of each package.",
    },
)
