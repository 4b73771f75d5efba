"""What can be run beside a program: <program>.evaluate and <program>.benchmark."""

load("//rules/private:backend_packages.bzl", "recipe_packages")
load("//rules/private:exporter_flags.bzl", "add_request", "eager", "request_files")
load("//rules/private:providers.bzl", "EtProgramInfo")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:providers.bzl", "EtPackagesInfo")
load("//toolchains/python:paths.bzl", "readable_label")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

def _companion_impl(ctx):
    info = ctx.attr.program[EtProgramInfo]
    model = eager(info.lowered).model
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    data = [info.own_data] if info.own_data else []
    indexes = [info.own_index] if info.own_index else []
    for shared in info.shared_data:
        data.append(shared.data)
        indexes.append(shared.index)
    flags = ctx.actions.declare_file(ctx.label.name + ".flags")
    args = ctx.actions.args()
    add_request(
        args,
        label = info.label,
        model = model,
        recipe = None,
        methods = eager(info.lowered).methods,
        in_runfiles = True,
    )
    args.add(info.program.short_path, format = "--program=%s")
    args.add_all([f.short_path for f in data], format_each = "--program_data=%s")
    ctx.actions.write(flags, args)

    # Some runtimes are the compiler's own libraries.
    layers = recipe_packages(ctx.label, info.recipe, model) + [ctx.attr._cli[EtPackagesInfo]]
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        roots = exporter.package_roots + [root for entry in layers for root in entry.roots],
        words = [
            ctx.attr.module,
            "--target_flags",
            flags.short_path,
            "--target_manifest",
            info.manifest.short_path,
            "--target_recipe",
            readable_label(info.recipe.label),
        ],
        enter = True,
    )
    files = depset(
        [flags, info.program, info.manifest, exporter.interpreter] + data + indexes + ctx.files._tools,
        transitive = [
            request_files(model = model, recipe = None),
            tool_files(ctx),
            exporter.packages,
            exporter.python_files,
        ] + [entry.files for entry in layers],
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

et_companion = rule(
    implementation = _companion_impl,
    doc = "Runs a module of tools/etcli/measure with a program, its model and its manifest.",
    attrs = {
        "module": attr.string(mandatory = True, doc = "The Python module that is run."),
        "program": attr.label(mandatory = True, providers = [EtProgramInfo], doc = "The et_program."),
        "_cli": attr.label(default = "@executorch_cli//:packages", providers = [EtPackagesInfo]),
        "_tools": attr.label_list(
            allow_files = True,
            default = [
                "//tools/etbundle:files",
                "//tools/etcli:files",
                "//tools/etcli/measure:files",
                "//tools/etcli/reproduce:files",
                "//tools/etllm/chat:files",
                "//tools/etreport:files",
            ],
        ),
    } | tool_attributes(),
    executable = True,
    toolchains = [EXPORTER_TOOLCHAIN],
)

# What a program's companions have of its attributes.
_COMMON = ("compatible_with", "exec_compatible_with", "restricted_to", "target_compatible_with", "testonly", "visibility")

def companions(name, attributes):
    """Declares what can be run beside a program. Analyzed only by those who run it.

    Args:
      name: of the program.
      attributes: dict: the program's.
    """
    common = {key: attributes[key] for key in _COMMON if key in attributes}
    tags = [tag for tag in attributes.get("tags") or [] if tag != "manual"] + ["manual"]
    for tool in ("benchmark", "evaluate"):
        et_companion(
            name = "%s.%s" % (name, tool),
            module = "etcli.measure." + tool,
            program = name,
            tags = tags,
            **common
        )
