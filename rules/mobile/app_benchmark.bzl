"""et_app_benchmark: measures an app with its own runner, on a device or on this machine."""

load("//rules:providers.bzl", "EtAppInfo")
load("//rules/private:et_commands.bzl", "MEASURING_TOOLS")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:packages.bzl", "CLI_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

def _et_app_benchmark_impl(ctx):
    info = ctx.attr.app[EtAppInfo]
    app = ctx.attr.app[DefaultInfo]
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    packages = ctx.toolchains[CLI_TOOLCHAIN].packages
    words = ["etcli", "benchmark", "--target_app", app.files_to_run.executable.short_path]
    words += ["--target_app_folder", info.directory.short_path]
    for program in info.programs:
        words += ["--target_app_report", "%s=%s" % (program.label, program.report.short_path)]
    if info.etdump:
        words.append("--target_app_events")
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        roots = exporter.package_roots + packages.roots,
        words = words,
        enter = True,
    )
    files = depset(
        [exporter.interpreter] + [program.report for program in info.programs] + ctx.files._tools,
        transitive = [tool_files(ctx), exporter.packages, exporter.python_files, packages.files],
    )
    runfiles = ctx.runfiles(transitive_files = files).merge(app.default_runfiles)
    return [DefaultInfo(executable = script, runfiles = runfiles)]

et_app_benchmark = rule(
    implementation = _et_app_benchmark_impl,
    doc = """Measures an app with its own runner: on an Android device through `adb`, or on this machine.

```starlark
et_app_benchmark(
    name = "chat_android_arm64.benchmark",
    app = ":chat_android_arm64",
)
```

```sh
bazel run //x:chat_android_arm64.benchmark -- --save before.json
bazel run //x:chat_android_arm64.benchmark -- --baseline before.json --html bench.html
bazel run //x:chat_android_arm64.benchmark -- --dry_run    # prints the commands
```

The figures, the JSON and the page are those of a program's `.benchmark`. If the app has `etdump = True`, they
include the time by operator and module; for a language model, they have its speeds only. See docs/howto/debug.md.

`et_llm` declares one for each of its apps.
""",
    attrs = {
        "app": attr.label(
            mandatory = True,
            providers = [EtAppInfo],
            doc = "The et_runner_app, with our runner.",
        ),
        "_tools": attr.label_list(
            allow_files = True,
            default = MEASURING_TOOLS,
        ),
    } | tool_attributes(),
    executable = True,
    toolchains = [CLI_TOOLCHAIN, EXPORTER_TOOLCHAIN],
)
