"""EtReport: what an app consists of, from its manifest and its programs' reports."""

load("//toolchains/exporter:linker_action.bzl", "linker_action")

def app_report(ctx, *, programs, manifest):
    """Declares the report of an app; its programs' reports are built only if it is requested.

    Args:
      ctx: rule context with the exporter toolchain.
      programs: list of EtProgramInfo.
      manifest: File: the app's.

    Returns:
      List of Files: JSON and a page.
    """
    json = ctx.actions.declare_file(ctx.label.name + ".report.json")
    html = ctx.actions.declare_file(ctx.label.name + ".report.html")
    args = ctx.actions.args()
    args.add("--manifest", manifest)
    args.add("--json", json)
    args.add("--html", html)
    for program in programs:
        args.add_all("--report", [program.label, program.report])
    backends = depset(transitive = [program.backends for program in programs])
    for id, file in sorted({(b.id, f): None for b in backends.to_list() for f in b.device_files}):
        args.add_all("--device_file", [id, file])
    linker_action(
        ctx,
        module = "etcli.report.app",
        arguments = args,
        inputs = [manifest] + [program.report for program in programs],
        outputs = [json, html],
        mnemonic = "EtReport",
        progress_message = "Reporting on %{label}",
    )
    return [json, html]
