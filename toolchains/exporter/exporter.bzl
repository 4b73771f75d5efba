"""et_exporter: the Python environment of the toolchain that lowers and links."""

load("@rules_python//python:defs.bzl", "PyInfo")
load("//toolchains/exporter:providers.bzl", "EtExporterInfo")
load("//toolchains/python:paths.bzl", "repository_root", "unique")
load("//toolchains/python:python_tool.bzl", "BUNDLER", "MOBILE", "REPORT", "launcher_script", "tool_attributes", "tool_files")

EXPORTER_TOOLCHAIN = Label("//toolchains/exporter:toolchain_type")

def _roots(ctx):
    """Files of packages and their import roots."""
    if bool(ctx.attr.packages) != bool(ctx.attr.package_imports):
        fail("%s: packages and package_imports go together: one of them is missing." % ctx.label)
    if not ctx.attr.packages and not ctx.attr.deps:
        fail(("%s: no packages are given. Give torch and executorch: packages and package_imports, or deps " +
              "(py_library targets, e.g. of a pip hub).") % ctx.label)
    here = "/".join([p for p in [repository_root(ctx.label), ctx.label.package] if p])
    roots = ["%s/%s" % (here, i) for i in ctx.attr.package_imports]
    transitive = []
    for dep in ctx.attr.deps:
        transitive.append(dep[PyInfo].transitive_sources)
        transitive.append(dep[DefaultInfo].default_runfiles.files)
        roots += dep[PyInfo].imports.to_list()
    return struct(
        files = depset(ctx.files.packages, transitive = transitive),
        roots = unique(roots),
    )

def _python_tool_impl(ctx):
    packages = _roots(ctx)
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(ctx, script, interpreter = ctx.file.interpreter, roots = packages.roots)
    runfiles = ctx.runfiles(
        [ctx.file.interpreter] + ctx.files.python_files + ctx.files.more_tools,
        transitive_files = depset(transitive = [packages.files, tool_files(ctx)]),
    )
    return [DefaultInfo(executable = script, runfiles = runfiles)]

def _python_attributes(cfg):
    return {
        "interpreter": attr.label(
            allow_single_file = True,
            cfg = cfg,
            mandatory = True,
            doc = "The Python interpreter, 3.11 or later.",
        ),
        "python_files": attr.label_list(
            allow_files = True,
            cfg = cfg,
            doc = "Files that the interpreter needs beside itself: its standard library.",
        ),
    }

def _package_attributes(cfg):
    return {
        "deps": attr.label_list(
            cfg = cfg,
            providers = [PyInfo],
            doc = "py_library targets that provide executorch, torch and what they need.",
        ),
        "package_imports": attr.string_list(
            doc = "Folders that packages are imported from, relative to the target's package.",
        ),
        "packages": attr.label_list(
            allow_files = True,
            cfg = cfg,
            doc = "Packages' files, as pip install --target makes them.",
        ),
    }

# In a rule of its own, as the environment's folders may be inputs of actions only in runfiles:
# elsewhere Bazel warns of each, in each action.
_python_tool = rule(
    implementation = _python_tool_impl,
    # Used as a program of actions, and so in the configuration of these already.
    attrs = _python_attributes("target") | _package_attributes("target") | tool_attributes() | {
        "more_tools": attr.label_list(allow_files = True, doc = "Modules of more packages of ours, a target each."),
    },
    executable = True,
)

def _light(ctx, packages):
    """Files and import roots of what tools without torch need; where it isn't apart: of all packages."""
    if not ctx.attr.light:
        return packages
    here = "/".join([p for p in [repository_root(ctx.label), ctx.label.package] if p])
    return struct(
        files = depset(ctx.files.light),
        roots = ["%s/%s" % (here, i) for i in ctx.attr.light_imports],
    )

def _exporter_toolchain_impl(ctx):
    packages = _roots(ctx)
    light = _light(ctx, packages)
    info = EtExporterInfo(
        lowering_tool = ctx.attr.lowering_tool[DefaultInfo].files_to_run,
        linking_tool = ctx.attr.linking_tool[DefaultInfo].files_to_run,
        stamp = ctx.file.stamp,
        interpreter = ctx.file.interpreter,
        python_files = depset(ctx.files.python_files),
        packages = packages.files,
        package_roots = packages.roots,
        light_packages = light.files,
        light_roots = light.roots,
        executorch_version = ctx.attr.executorch_version,
        torch_version = ctx.attr.torch_version,
        metadata_files = depset(ctx.files.metadata_files),
    )
    return [
        platform_common.ToolchainInfo(exporter = info),
        info,
        DefaultInfo(files = depset([ctx.file.stamp])),
    ]

et_exporter_rule = rule(
    implementation = _exporter_toolchain_impl,
    # For the platform that the toolchain runs on, whatever is built for.
    doc = "An exporter alone. `et_exporter` declares it and its tools.",
    attrs = _python_attributes("exec") | _package_attributes("exec") | {
        "executorch_version": attr.string(mandatory = True, doc = "E.g. \"1.5.1\"."),
        "light": attr.label_list(
            allow_files = True,
            cfg = "exec",
            doc = "Packages that tools without torch need (flatbuffers, jinja2, zstandard, the generated schema " +
                  "modules). Without it they get all packages.",
        ),
        "light_imports": attr.string_list(
            doc = "Folders that `light` is imported from, relative to the target's package.",
        ),
        "linking_tool": attr.label(
            mandatory = True,
            executable = True,
            cfg = "exec",
            doc = "Set by the macro: links programs.",
        ),
        "lowering_tool": attr.label(
            mandatory = True,
            executable = True,
            cfg = "exec",
            doc = "Set by the macro: lowers programs.",
        ),
        "metadata_files": attr.label_list(
            allow_files = True,
            doc = "The packages' METADATA files, for SBOMs of releases; those among the files of packages " +
                  "and deps count in any case.",
        ),
        "stamp": attr.label(
            allow_single_file = True,
            mandatory = True,
            doc = "A file whose contents change with the environment, e.g. its lock.",
        ),
        "torch_version": attr.string(mandatory = True, doc = "E.g. \"2.13.0\"."),
    },
    provides = [EtExporterInfo],
)

def _chosen(attributes, names):
    return {name: attributes[name] for name in names if name in attributes}

def et_exporter(name, **kwargs):
    """The Python environment that lowers and links programs.

    For a `toolchain` of the type `@rules_executorch//toolchains/exporter:toolchain_type`.

    The bundled one comes from the module extension's lock. To use your own, from a pip hub:

    ```starlark
    et_exporter(
        name = "exporter",
        interpreter = "@python_3_11//:python3",
        python_files = ["@python_3_11//:files"],
        deps = ["@pypi//executorch", "@pypi//torch"],
        stamp = "requirements.txt",
        executorch_version = "1.5.1",
        torch_version = "2.13.0",
    )
    toolchain(
        name = "exporter_toolchain",
        toolchain = ":exporter",
        toolchain_type = "@rules_executorch//toolchains/exporter:toolchain_type",
    )
    ```

    Args:
      name: of the target.
      **kwargs: the attributes of the rule, in the table below, and those of all rules.
    """
    light = kwargs.get("light")
    if bool(light) != bool(kwargs.get("light_imports")):
        fail("et_exporter %s: light and light_imports go together: one of them is missing." % name)
    et_exporter_rule(
        name = name,
        linking_tool = name + ".linking_tool",
        lowering_tool = name + ".lowering_tool",
        **kwargs
    )
    heavy = _chosen(kwargs, ["deps", "package_imports", "packages"])
    lean = dict(packages = light, package_imports = kwargs["light_imports"]) if light else heavy
    common = _chosen(kwargs, ["interpreter", "python_files"]) | dict(tags = ["manual"], visibility = ["//visibility:private"])
    _python_tool(name = name + ".lowering_tool", **(common | heavy))
    _python_tool(
        name = name + ".linking_tool",
        more_tools = [BUNDLER, MOBILE, REPORT],
        **(common | lean)
    )
