"""Benchmarks of an et_llm with `benchmark = True`."""

load("//toolchains/python:paths.bzl", "readable_label")

# Measurements of this machine, of now: they are neither taken from a cache nor made elsewhere.
_LOCAL = {
    "no-cache": "1",
    "no-remote": "1",
}

_SCRIPT = """
set -eu
folder=$1
shift
mkdir -p "$folder"
for tool; do
  name=${tool##*/}
  name=${name%.benchmark}
  "$tool" --html "$PWD/$folder/$name.html" --save "$PWD/$folder/$name.json" > "$folder/$name.txt"
done
"""

def _llm_benchmarks_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    tools = [benchmark[DefaultInfo].files_to_run for benchmark in ctx.attr.benchmarks]
    args = ctx.actions.args()
    args.add_all([folder], expand_directories = False)
    args.add_all([tool.executable for tool in tools])
    ctx.actions.run_shell(
        command = _SCRIPT,
        arguments = [args],
        tools = tools,
        outputs = [folder],
        mnemonic = "EtBenchmark",
        progress_message = "Measuring the programs of %s" % readable_label(ctx.label),
        execution_requirements = _LOCAL,
        # The tools bring what they run with.
        toolchain = None,
    )
    return [DefaultInfo(files = depset([folder]), runfiles = ctx.runfiles([folder]))]

llm_benchmarks = rule(
    implementation = _llm_benchmarks_impl,
    doc = "A folder with a page, a table and JSON for each program.",
    attrs = {
        "benchmarks": attr.label_list(
            mandatory = True,
            doc = "The programs' `.benchmark` targets.",
        ),
    },
)
