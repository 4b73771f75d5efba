"""et_packages: what a backend needs beside the exporter's environment: Python packages, programs, an SDK."""

load("@rules_python//python:defs.bzl", "PyInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:providers.bzl", "EtPackagesInfo")
load("//toolchains/python:paths.bzl", "runfiles_path", "unique")

# The packages of the command-line tools, as a toolchain: queries of targets that start these fetch nothing.
CLI_TOOLCHAIN = Label("//toolchains/exporter:cli_toolchain_type")

def _files_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(script, "#!/bin/sh\n# Holds packages as runfiles.\n", is_executable = True)
    transitive = []
    for dep in ctx.attr.deps:
        transitive.append(dep[PyInfo].transitive_sources)
        transitive.append(dep[DefaultInfo].default_runfiles.files)
    runfiles = ctx.runfiles(ctx.files.packages + [ctx.file.stamp], transitive_files = depset(transitive = transitive))
    return [DefaultInfo(executable = script, runfiles = runfiles)]

def _file_attributes(cfg):
    return {
        "deps": attr.label_list(
            cfg = cfg,
            providers = [PyInfo],
            doc = "py_library targets that provide packages.",
        ),
        "packages": attr.label_list(
            allow_files = True,
            cfg = cfg,
            doc = "Files or folders, as pip install --target makes them.",
        ),
        "stamp": attr.label(
            allow_single_file = True,
            mandatory = True,
            doc = "A file whose contents change with the packages, e.g. their lock.",
        ),
    }

# In a rule of its own, as folders may be inputs of actions only in runfiles: elsewhere Bazel warns of each.
_packages_files = rule(
    implementation = _files_impl,
    # Used as a tool, and so in the configuration of tools already.
    attrs = _file_attributes("target"),
    executable = True,
)

def _packages_impl(ctx):
    here = runfiles_path(ctx.file.stamp).rsplit("/", 1)[0]
    roots = ["%s/%s" % (here, i) for i in ctx.attr.package_imports]
    for dep in ctx.attr.deps:
        roots += dep[PyInfo].imports.to_list()
    holder = ctx.attr.holder[DefaultInfo]
    runtime = ctx.attr.runtime[platform_common.ToolchainInfo] if ctx.attr.runtime else None
    preloads = runtime.preloads if runtime else []
    info = EtPackagesInfo(
        label = ctx.label,
        holder = holder.files_to_run,
        files = depset(transitive = [holder.default_runfiles.files] + ([runtime.files] if runtime else [])),
        stamp = ctx.file.stamp,
        stamp_path = runfiles_path(ctx.file.stamp),
        roots = unique(roots),
        programs = ["%s/%s" % (here, folder) for folder in ctx.attr.programs],
        variables = {n: "%s/%s" % (here, path) for n, path in ctx.attr.variables.items()},
        libraries = ["%s/%s" % (here, file) for file in ctx.attr.libraries],
        emulators = ctx.attr.emulators,
        library_paths = ["%s/%s" % (here, folder) for folder in ctx.attr.library_paths] +
                        unique([runfiles_path(file).rpartition("/")[0] for file in preloads]),
        runtime = runtime,
        settings = ctx.attr.settings,
        missing = ctx.attr.missing,
        title = ctx.attr.title,
        metadata_files = depset(ctx.files.metadata_files),
    )
    return [
        DefaultInfo(files = depset([ctx.file.stamp])),
        info,
        platform_common.ToolchainInfo(packages = info),
    ]

et_packages_rule = rule(
    implementation = _packages_impl,
    doc = "Packages alone. `et_packages` declares them and what holds their files.",
    attrs = _file_attributes("exec") | {
        "emulators": attr.string_list(
            doc = "Python modules of the packages that run a backend's payloads, or kernels, in the device's place. " +
                  "Each has a function `install()`, which registers them by `runner.emulated`.",
        ),
        "holder": attr.label(
            mandatory = True,
            executable = True,
            cfg = "exec",
            doc = "Set by the macro: the target with the files.",
        ),
        "libraries": attr.string_list(
            doc = "Shared libraries that register a backend or operators when they are loaded, relative to the " +
                  "stamp's folder. Tests, chats, benchmarks and `et` load them before a program.",
        ),
        "library_paths": attr.string_list(
            doc = "Folders with shared libraries that a backend looks for when it runs, relative to the stamp's. " +
                  "They are on the search path of tests, chats, benchmarks and of `bazel run` of apps.",
        ),
        "metadata_files": attr.label_list(
            allow_files = True,
            doc = "The packages' METADATA files, for SBOMs of releases.",
        ),
        "missing": attr.string(
            doc = "Sentence that a build fails with, because the packages cannot be used; empty: they can.",
        ),
        "package_imports": attr.string_list(
            doc = "Import roots of the packages, relative to the stamp's folder. They come after the " +
                  "exporter's packages, so they replace none.",
        ),
        "programs": attr.string_list(
            doc = "Folders with programs that a lowering starts, relative to the stamp's; they are on PATH.",
        ),
        "title": attr.string(
            doc = "Name of what runs a backend's programs by these packages on the machine that builds: \"OpenVINO\". " +
                  "Logs of tests have it.",
        ),
        "runtime": attr.label(
            cfg = "exec",
            doc = "Target that runs the backend's programs in place of this machine's runtime, such as " +
                  "@rules_executorch//toolchains/bionic:android_x86_64, which has another platform's.",
            providers = [platform_common.ToolchainInfo],
        ),
        "settings": attr.string_dict(
            doc = "Environment variables of runs, whose values are no paths.",
        ),
        "variables": attr.string_dict(
            doc = "Environment variables of lowerings and of runs: name to a file or folder, relative to the stamp's.",
        ),
    },
    provides = [EtPackagesInfo],
    # Packages are for the platform that the exporter runs on.
    toolchains = [EXPORTER_TOOLCHAIN],
)

def et_packages(name, **kwargs):
    """Packages that a backend needs in addition to the exporter's, for `et_backend(packages = …)`.

    Those of the bundled backends come from the module extension's locks. To use your own, from a pip hub:

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
      **kwargs: the attributes of the rule, in the table below, and those of all rules.
    """
    et_packages_rule(name = name, holder = name + ".files", **kwargs)
    _packages_files(
        name = name + ".files",
        tags = ["manual"],
        visibility = ["//visibility:private"],
        **{key: kwargs[key] for key in ("deps", "packages", "stamp") if key in kwargs}
    )
