"""Actions without torch: EtLink, EtShare and EtReport."""

load("//toolchains/exporter:linker_action.bzl", "linker_action")

def link(
        ctx,
        *,
        lowered,
        program,
        data = None,
        manifest = None,
        summary = None,
        shared = [],
        sharing = None,
        min_delegated = "",
        app_operators = None,
        adapter = None):
    """EtLink: a .pte, and a .ptd if asked for.

    Args:
      ctx: rule context.
      lowered: File: the directory of EtLower.
      program: File: the .pte to write.
      data: File: the .ptd to write, or None: the weights are embedded.
      manifest: File: JSON to write, or None.
      summary: File: JSON to write, or None.
      shared: list of EtSharedDataInfo: what they hold stays out.
      sharing: struct(allow_unshared, own_data, min_shared, adapter_data), or None.
      min_delegated: share of each method's FLOPs that must be delegated ("90%"); empty: any.
      app_operators: list of strings: operators that the app registers, or None: nothing is checked.
      adapter: File: directory of EtAdapt with the adapter's values, or None.
    """
    args = ctx.actions.args()
    args.add_all("--lowered", [lowered], expand_directories = False)
    args.add("--label", ctx.label)
    args.add("--program", program)
    outputs = [program]
    for flag, file in [("--data", data), ("--manifest", manifest), ("--summary", summary)]:
        if file:
            args.add(flag, file)
            outputs.append(file)
    args.add_all([info.manifest for info in shared], before_each = "--shared")
    if sharing:
        args.add_all(sharing.own_data, before_each = "--own_data")
        args.add("--adapter_data", sharing.adapter_data)
        if sharing.allow_unshared:
            args.add("--allow_unshared")
        if sharing.min_shared:
            args.add("--min_shared", sharing.min_shared)
    if min_delegated:
        args.add("--min_delegated", min_delegated)
    if app_operators != None:
        args.add("--require_kernels")
        args.add_all(app_operators, before_each = "--app_operator")
    if adapter:
        args.add_all("--adapter", [adapter], expand_directories = False)
    linker_action(
        ctx,
        module = "etlink",
        arguments = args,
        inputs = [lowered] + [info.manifest for info in shared] + ([adapter] if adapter else []),
        outputs = outputs,
        mnemonic = "EtLink",
        progress_message = "Linking %{output}",
    )

def share(ctx, *, lowered, exclude, beside, file, file_manifest, data, manifest):
    """EtShare: one .ptd out of lowered programs, or one that was built before, checked.

    Args:
      ctx: rule context.
      lowered: list of Files: directories of EtLower.
      exclude: list of strings: names or patterns that are left out.
      beside: list of Files: manifests of data files whose contents are left out.
      file: File: a .ptd that was built before, or None.
      file_manifest: File: its manifest, or None.
      data: File: the .ptd to write.
      manifest: File: JSON to write.
    """
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--data", data)
    args.add("--manifest", manifest)
    args.add_all(lowered, before_each = "--lowered", expand_directories = False)
    args.add_all(exclude, before_each = "--exclude")
    args.add_all(beside, before_each = "--beside")
    prebuilt = []
    for flag, path in [("--file", file), ("--file_manifest", file_manifest)]:
        if path:
            args.add(flag, path)
            prebuilt.append(path)
    linker_action(
        ctx,
        module = "etlink.share",
        arguments = args,
        inputs = lowered + beside + prebuilt,
        outputs = [data, manifest],
        mnemonic = "EtShare",
        progress_message = "Sharing %{output}",
    )

def report(ctx, *, lowered, measurements, summary, json, html):
    """EtReport: what a program consists of, as JSON and as a page.

    Args:
      ctx: rule context.
      lowered: File: the directory of EtLower.
      measurements: File: seconds, memory and accuracy of EtLower.
      summary: File: what EtLink wrote.
      json: File to write.
      html: File to write.
    """
    args = ctx.actions.args()
    args.add_all("--lowered", [lowered], expand_directories = False)
    args.add("--label", ctx.label)
    args.add("--timings", measurements)
    args.add("--summary", summary)
    args.add("--json", json)
    args.add("--html", html)
    linker_action(
        ctx,
        module = "etcli.report.program",
        arguments = args,
        inputs = [lowered, measurements, summary],
        outputs = [json, html],
        mnemonic = "EtReport",
        progress_message = "Reporting on %{label}",
    )
