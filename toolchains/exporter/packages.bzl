"""et_packages: what a backend needs beside the exporter's environment: Python packages, programs, an SDK."""

load("@rules_python//python:defs.bzl", "PyInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:providers.bzl", "EtPackagesInfo")
load("//toolchains/python:paths.bzl", "runfiles_path", "unique")

def _files_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(script, "#!/bin/sh\n# Holds packages as runfiles.\n", is_executable = True)
    transitive = []
    for dep in ctx.attr.deps:
        transitive.append(dep[PyInfo].transitive_sources)
        transitive.append(dep[DefaultInfo].default_runfiles.files)
    runfiles = ctx.runfiles(ctx.files.packages + [ctx.file.stamp], transitive_files = depset(transitive = transitive))
    return [DefaultInfo(executable = script, runfiles = runfiles)]

# In a rule of its own, as folders may be inputs of actions only in runfiles: elsewhere Bazel warns of each.
_packages_files = rule(
    implementation = _files_impl,
    attrs = {
        "deps": attr.label_list(providers = [PyInfo]),
        "packages": attr.label_list(allow_files = True),
        "stamp": attr.label(allow_single_file = True, mandatory = True),
    },
    executable = True,
)

def _packages_impl(ctx):
    here = runfiles_path(ctx.file.stamp).rsplit("/", 1)[0]
    roots = ["%s/%s" % (here, i) for i in ctx.attr.package_imports]
    for dep in ctx.attr.deps:
        roots += dep[PyInfo].imports.to_list()
    holder = ctx.attr.holder[DefaultInfo]
    return [
        DefaultInfo(files = depset([ctx.file.stamp])),
        EtPackagesInfo(
            label = ctx.label,
            holder = holder.files_to_run,
            files = holder.default_runfiles.files,
            stamp = ctx.file.stamp,
            stamp_path = runfiles_path(ctx.file.stamp),
            roots = unique(roots),
            programs = ["%s/%s" % (here, folder) for folder in ctx.attr.programs],
            variables = {n: "%s/%s" % (here, path) for n, path in ctx.attr.variables.items()},
            missing = ctx.attr.missing,
            metadata_files = depset(ctx.files.metadata_files),
        ),
    ]

_packages = rule(
    implementation = _packages_impl,
    attrs = {
        "deps": attr.label_list(cfg = "exec", providers = [PyInfo]),
        "holder": attr.label(mandatory = True, executable = True, cfg = "exec"),
        "missing": attr.string(),
        "package_imports": attr.string_list(),
        "metadata_files": attr.label_list(allow_files = True),
        "programs": attr.string_list(),
        "stamp": attr.label(allow_single_file = True, mandatory = True),
        "variables": attr.string_dict(),
    },
    provides = [EtPackagesInfo],
    # Packages are for the platform that the exporter runs on.
    toolchains = [EXPORTER_TOOLCHAIN],
)

def et_packages(
        *,
        name,
        stamp,
        packages = [],
        package_imports = [],
        deps = [],
        programs = [],
        variables = {},
        missing = "",
        metadata_files = [],
        tags = [],
        visibility = None):
    """What a backend needs beside the exporter's environment, for `et_backend(packages = …)`.

    Those of the backends that ship come from the module extension's locks. Your own, from a pip hub:

    ```starlark
    et_packages(
        name = "packages",
        deps = ["@pypi//our_npu_compiler"],
        stamp = "requirements.txt",
    )
    et_backend(name = "npu", id = "OurNpuBackend", packages = ":packages")
    ```

    Args:
      name: of the target.
      stamp: label of a file whose contents change with the packages, e.g. their lock.
      packages: labels of files or folders, as pip install --target makes them.
      package_imports: folders that they are imported from, relative to the stamp's. They come after the
        exporter's own packages: none is replaced.
      deps: py_library targets that provide packages.
      programs: folders with programs that a lowering starts, relative to the stamp's; they are on PATH.
      variables: environment variables of a lowering: name to a file or folder, relative to the stamp's.
      metadata_files: labels of the packages' METADATA files, for SBOMs of releases.
      missing: if not empty: why the packages cannot be used, as the sentence that a build fails with.
      tags: of the target.
      visibility: of the target.
    """
    _packages_files(
        name = name + ".files",
        deps = deps,
        packages = packages,
        stamp = stamp,
        tags = ["manual"],
        visibility = ["//visibility:private"],
    )
    _packages(
        name = name,
        deps = deps,
        holder = name + ".files",
        missing = missing,
        package_imports = package_imports,
        metadata_files = metadata_files,
        programs = programs,
        stamp = stamp,
        tags = tags,
        variables = variables,
        visibility = visibility,
    )
