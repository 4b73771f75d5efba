"""et_tool: a program of Python modules of ours, with layers of packages."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:providers.bzl", "EtPackagesInfo")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

def _et_tool_impl(ctx):
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    layers = [target[EtPackagesInfo] for target in ctx.attr.packages]
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        # The light ones first: their `executorch` imports without torch, which takes seconds.
        roots = [root for layer in layers for root in layer.roots] + exporter.light_roots + exporter.package_roots,
        words = [ctx.attr.module],
        path_variables = {"ET_RUNTIME_ROOTS": exporter.package_roots},
    )
    files = depset(
        [exporter.interpreter, exporter.stamp] + ctx.files.tools,
        transitive = [
            tool_files(ctx),
            exporter.packages,
            exporter.light_packages,
            exporter.python_files,
        ] + [layer.files for layer in layers],
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

et_tool = rule(
    implementation = _et_tool_impl,
    doc = """A program of Python modules of ours, for people or for actions. It starts without torch; the import roots
of torch and of the whole ExecuTorch are in the environment variable ET_RUNTIME_ROOTS.""",
    attrs = {
        "module": attr.string(mandatory = True, doc = "The Python module that is run."),
        "packages": attr.label_list(
            providers = [EtPackagesInfo],
            doc = "Packages beside the exporter's.",
        ),
        "tools": attr.label_list(
            allow_files = True,
            doc = "Modules of ours, a target for each package.",
        ),
    } | tool_attributes(),
    executable = True,
    toolchains = [EXPORTER_TOOLCHAIN],
)
