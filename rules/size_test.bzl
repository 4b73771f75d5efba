"""et_size_test: fails when a program outgrows a limit, in bytes or in its compiler's estimates."""

load("//rules:providers.bzl", "EtProgramInfo")
load("//rules/private:amounts.bzl", "check_bytes", "check_count")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/python:python_tool.bzl", "launcher_script", "tool_attributes", "tool_files")

_LIMITS = {
    "max_bytes": check_bytes,
    "max_cycles": check_count,
    "max_sram": check_bytes,
    "max_unshared_bytes": check_bytes,
}

def _et_size_test_impl(ctx):
    info = ctx.attr.program[EtProgramInfo]
    limits = []
    for name, check in _LIMITS.items():
        if getattr(ctx.attr, name):
            check(ctx.label, name, getattr(ctx.attr, name))
            limits += ["--" + name, getattr(ctx.attr, name).replace(" ", "")]
    if not limits:
        fail("%s: no limit is given. Give one or more of %s." % (ctx.label, ", ".join(_LIMITS.keys())))
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
        "max_cycles": attr.string(
            doc = "Maximum cycles of one run of a method on Ethos-U, as vela estimates them: \"1200000\", \"1.2e6\".",
        ),
        "max_sram": attr.string(
            doc = "Maximum SRAM of a method on Ethos-U, as vela estimates it: \"384 KiB\".",
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
    """Fails if a program exceeds a limit of its bytes, cycles or SRAM.

    ```starlark
    et_size_test(
        name = "assistant_size_test",
        max_bytes = "120 MB",             # all that the program loads
        max_unshared_bytes = "2 MB",      # what an update of it alone moves
        program = ":assistant",
    )
    ```

    The message of a failure lists the largest weights that are not shared, and why.

    For Ethos-U, vela estimates cycles and memory while it compiles. The limits are for each method: the cycles of its
    delegates add up, and of their SRAM the largest counts. A program without delegates for Ethos-U fails the test. The
    program's report has all figures, in `estimates` and by delegate in `delegation`.

    ```starlark
    et_size_test(
        name = "keyword_npu_test",
        max_cycles = "1.2e6",             # 2.4 ms at 500 MHz
        max_sram = "384 KiB",
        program = ":keyword_ethos_u55",
    )
    ```

    Args:
      name: of the target.
      size: Bazel's size of the test, which sets its time limit: 60 s by default.
      **kwargs: the attributes of the rule, in the table below, and those of all tests.
    """
    et_size_rule_test(name = name, size = size, **kwargs)
