"""Targets beside a program that start a command of `et` with it: <program>.evaluate, .benchmark and .divergence."""

load("//rules/private:emulation.bzl", "EMULATED", "running_program")
load("//rules/private:program_run.bzl", "RUNNING_TOOLCHAINS", "run_beside_model")
load("//rules/private:providers.bzl", "EtProgramInfo")
load("//toolchains/exporter:packages.bzl", "CLI_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "readable_label")
load("//toolchains/python:python_tool.bzl", "tool_attributes")

# Of the commands of `et` that measure.
MEASURING_TOOLS = [
    Label("//tools/etcli:core"),
    Label("//tools/etcli:measure_files"),
    Label("//tools/etllm/tokenizer:files"),
    Label("//tools/etcli/report:files"),
]

def _companion_impl(ctx):
    running = running_program(ctx)
    info = running.info
    flags = ctx.actions.declare_file(ctx.label.name + ".flags")
    words = ["etcli", ctx.attr.command, "--target_flags", flags.short_path]
    words += ["--target_manifest", info.manifest.short_path]
    words += ["--target_recipe", readable_label(info.recipe.label)]
    reports = [info.report] if ctx.attr.command in ("benchmark", "divergence") else []
    for report in reports:
        words += ["--target_report", report.short_path]
    return [run_beside_model(
        ctx,
        running = running,
        flags = flags,
        words = words,
        lowers = ctx.attr.command == "divergence",
        packages = [ctx.toolchains[CLI_TOOLCHAIN].packages],
        tools = ctx.files._tools + reports,
    )]

et_companion = rule(
    implementation = _companion_impl,
    doc = "Starts a command of `et` with a program, its model and its manifest.",
    attrs = {
        "command": attr.string(mandatory = True, doc = "\"evaluate\", \"benchmark\" or \"divergence\"."),
        "program": attr.label(mandatory = True, providers = [EtProgramInfo], doc = "The et_program."),
        "_tools": attr.label_list(
            allow_files = True,
            default = MEASURING_TOOLS,
        ),
    } | EMULATED | tool_attributes(),
    executable = True,
    toolchains = [CLI_TOOLCHAIN] + RUNNING_TOOLCHAINS,
)

# A target of its own: an action can run only what another target provides, with its runfiles.
def _divergence_impl(ctx):
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = script, target_file = ctx.executable.command, is_executable = True)
    json = ctx.actions.declare_file(ctx.label.name + ".json")
    html = ctx.actions.declare_file(ctx.label.name + ".html")
    args = ctx.actions.args()
    args.add("--target_quiet")
    args.add("--save", json)
    args.add("--html", html)
    ctx.actions.run(
        executable = ctx.executable.command,
        arguments = [args],
        outputs = [json, html],
        mnemonic = "EtDiverge",
        progress_message = "Comparing the modules of %{label}",
    )
    return [
        DefaultInfo(executable = script, runfiles = ctx.attr.command[DefaultInfo].default_runfiles),
        OutputGroupInfo(divergence = depset([json, html])),
    ]

et_divergence = rule(
    implementation = _divergence_impl,
    doc = "Starts `et divergence` with a program, or runs it in the action EtDiverge, for its output group.",
    attrs = {
        "command": attr.label(
            mandatory = True,
            executable = True,
            cfg = "target",
            doc = "The et_companion that starts the command.",
        ),
    },
    executable = True,
)

# Attributes that companions take over from their program.
_COMMON = ("compatible_with", "exec_compatible_with", "restricted_to", "target_compatible_with", "testonly", "visibility")

def companions(name, attributes):
    """Declares the targets beside a program. They are analyzed only where they are run.

    Args:
      name: of the program.
      attributes: dict: the program's.
    """
    common = {key: attributes[key] for key in _COMMON if key in attributes}
    tags = [tag for tag in attributes.get("tags") or [] if tag != "manual"] + ["manual"]
    for command in ("benchmark", "evaluate"):
        et_companion(
            name = "%s.%s" % (name, command),
            command = command,
            program = name,
            tags = tags,
            **common
        )
    et_companion(
        name = name + ".divergence_command",
        command = "divergence",
        program = name,
        tags = tags,
        **common
    )
    et_divergence(
        name = name + ".divergence",
        command = name + ".divergence_command",
        tags = tags,
        **common
    )
