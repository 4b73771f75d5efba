"""et_size_test: fails when a program outgrows a limit."""

load("//rules:providers.bzl", "EtProgramInfo")
load("//rules/private:amounts.bzl", "check_bytes")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

def _et_size_test_impl(ctx):
    info = ctx.attr.program[EtProgramInfo]
    limits = []
    for name in ("max_bytes", "max_unshared_bytes"):
        if getattr(ctx.attr, name):
            check_bytes(ctx.label, name, getattr(ctx.attr, name))
            limits += ["--" + name, getattr(ctx.attr, name).replace(" ", "")]
    if not limits:
        fail("%s: no limit is given. Give max_bytes, max_unshared_bytes or both." % ctx.label)
    exporter = ctx.toolchains[EXPORTER_TOOLCHAIN].exporter
    script = ctx.actions.declare_file(ctx.label.name)
    launcher_script(
        ctx,
        script,
        interpreter = exporter.interpreter,
        words = ["etlink.size", "--label", str(ctx.label), "--summary", info.summary.short_path] +
                limits,
        enter = True,
    )

    # The comparison imports nothing but our own packages and Python's.
    files = depset(
        [info.summary, exporter.interpreter],
        transitive = [tool_files(ctx), exporter.python_files],
    )
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(transitive_files = files))]

et_size_rule_test = rule(
    implementation = _et_size_test_impl,
    doc = "A size test. `et_size_test` declares it.",
    attrs = {
        "max_bytes": attr.string(
            doc = "Maximum bytes of the .pte and all .ptd files that it loads: \"1000000\", \"120 MB\", \"115 " +
                  "MiB\".",
        ),
        "max_unshared_bytes": attr.string(
            doc = "Maximum bytes of the .pte and its own .ptd.",
        ),
        "program": attr.label(
            mandatory = True,
            providers = [EtProgramInfo],
            doc = "The et_program.",
        ),
    } | tool_attributes(),
    test = True,
    toolchains = [EXPORTER_TOOLCHAIN],
)

def et_size_test(name, size = "small", **kwargs):
    """Fails if a program is larger than a limit.

    ```starlark
    et_size_test(
        name = "assistant_size_test",
        max_bytes = "120 MB",             # all that the program loads
        max_unshared_bytes = "2 MB",      # what an update of it alone moves
        program = ":assistant",
    )
    ```

    The message of a failure lists the largest weights that are not shared, and why.

    Args:
      name: of the target.
      size: Bazel's size of the test, which sets its time limit: 60 s by default.
      **kwargs: the attributes of the rule, in the table below, and those of all tests.
    """
    et_size_rule_test(name = name, size = size, **kwargs)
