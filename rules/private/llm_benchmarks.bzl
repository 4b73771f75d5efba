"""What an et_llm measures where its YAML file says `benchmark: true`."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:paths.bzl", "readable_label")
load("//toolchains/python:python_tool.bzl", "action_environment", "import_root")

# Figures of this machine, of now: they are neither taken from a cache nor measured elsewhere.
_HERE = {
    "no-cache": "1",
    "no-remote": "1",
}

_SCRIPT = """
set -eu
requested=$1 folder=$2
shift 2
mkdir -p "$folder"
[ "$(cat "$requested")" = yes ] || exit 0
for tool; do
  name=${tool##*/}
  name=${name%.benchmark}
  "$tool" --html "$PWD/$folder/$name.html" --save "$PWD/$folder/$name.json" > "$folder/$name.txt"
done
"""

def _llm_benchmarks_impl(ctx):
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    requested = ctx.actions.declare_file(ctx.label.name + ".requested")
    args = ctx.actions.args()
    args.add("--path", import_root(ctx.files._tool, "etllm"))
    args.add("etllm.benchmark_wanted")
    args.add("--config", ctx.file.config)
    args.add("--name", ctx.file.config.short_path)
    args.add("--output", requested)
    ctx.actions.run(
        executable = exporter.lowering_tool,
        arguments = [args],
        inputs = [ctx.file.config],
        tools = ctx.files._tool + [exporter.stamp],
        outputs = [requested],
        mnemonic = "EtBenchmarkWanted",
        progress_message = "Reading whether %{label} is requested",
        env = action_environment(ctx),
        toolchain = EXPORTER_TOOLCHAIN,
    )
    folder = ctx.actions.declare_directory(ctx.label.name)
    tools = [entry[DefaultInfo].files_to_run for entry in ctx.attr.benchmarks]
    ctx.actions.run_shell(
        command = _SCRIPT,
        arguments = [requested.path, folder.path] + [entry.executable.path for entry in tools],
        inputs = [requested],
        tools = tools,
        outputs = [folder],
        mnemonic = "EtBenchmark",
        progress_message = "Measuring the programs of %s" % readable_label(ctx.label),
        execution_requirements = _HERE,
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder]))]

llm_benchmarks = rule(
    implementation = _llm_benchmarks_impl,
    doc = """A folder with a page, a table and figures of each program, or an empty one.

It is empty unless the YAML file has `benchmark: true`.
""",
    attrs = {
        "benchmarks": attr.label_list(
            mandatory = True,
            doc = "The programs' `.benchmark` targets, built as the programs are.",
        ),
        "config": attr.label(
            allow_single_file = True,
            mandatory = True,
            doc = "The YAML file of the et_llm.",
        ),
        "_tool": attr.label(allow_files = True, default = "//tools/etllm:files"),
    },
    toolchains = [EXPORTER_TOOLCHAIN],
)
