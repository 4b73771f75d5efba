"""Checks before an app is linked: backends and versions at analysis, operators in EtFit."""

load("//rules/private:kernels.bzl", "KernelsInfo")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/runtime:providers.bzl", "PROGRAM_HEADER")
load("//toolchains/runtime:runtimes.bzl", "READY_MADE")

def check_fit(ctx, *, programs, runtime, exporter_version, running = []):
    """Fails where a program cannot run on a runtime, as far as analysis can know.

    Args:
      ctx: rule context, for messages.
      programs: list of EtProgramInfo.
      runtime: EtRuntimeInfo.
      exporter_version: version of the ExecuTorch that lowers the programs.
      running: list of EtBackendInfo with what runs their programs beside the runtime.
    """
    has = {b: True for library in [runtime.core] + runtime.libraries for b in library.backends}
    loaded = {
        backend.label: True
        for backend in running
        for layer in backend.emulator or backend.packages
        if layer.libraries or layer.emulators
    }
    for program in programs:
        for backend in program.backends.to_list():
            if backend.id and backend.id not in has and backend.label not in loaded:
                _fail_backend(ctx, program, backend, runtime, has)
        if program.data_files.to_list() and not runtime.data_files:
            fail(("%s: %s loads .ptd files, and the runtime %s (%s) cannot. Embed the weights " +
                  "(weights = \"embedded\", no shared_data), or use another runtime.") %
                 (ctx.label, program.label, runtime.label, runtime.platform))
    if (programs and _numbers(runtime.executorch_version) < _numbers(exporter_version) and
        exporter_version not in runtime.verified_exporters):
        fail(("%s: version of the runtime %s (%s): got ExecuTorch %s, expected the exporter's, %s, or newer. " +
              "Use such a runtime; or run your programs on this one, and add \"%s\" to its " +
              "verified_exporters if their outputs are right.") %
             (
                 ctx.label,
                 runtime.label,
                 runtime.platform,
                 runtime.executorch_version,
                 exporter_version,
                 exporter_version,
             ))

def _fail_backend(ctx, program, backend, runtime, has):
    others = sorted([p for p, known in READY_MADE.items() if backend.id in known.backends])
    where = "Ready-made runtimes that have it: %s." % ", ".join(others) if others else (
        "No ready-made runtime has it: import one that does with et_runtime_import."
    )
    fail(("%s: %s delegates to %s (%s): backend not found in the runtime %s (%s). Available: %s. " +
          "%s Or use a recipe for an available backend.") %
         (
             ctx.label,
             program.label,
             backend.id,
             backend.label,
             runtime.label,
             runtime.platform,
             ", ".join(sorted(has)) or "no backend",
             where,
         ))

def _numbers(version):
    """Numbers of a version, for comparison: [1, 5, 1] for "1.5.1" and "1.5.1+cpu"."""
    parts = version.split("+")[0].split(".")
    return [int(p) if p.isdigit() else 0 for p in parts]

def fit(ctx, *, programs, runtime, kernels, etdump):
    """EtFit: operators of programs against libraries; and what to link.

    Args:
      ctx: rule context with the exporter toolchain.
      programs: list of EtProgramInfo.
      runtime: EtRuntimeInfo.
      kernels: list of targets with KernelsInfo: the app's own operators.
      etdump: whether the app gets the library that records events.

    Returns:
      struct(json = File, link_flags = File, linked = list of Files that those flags name, libraries =
      list of EtRuntimeLibraryInfo).
    """
    always = runtime.always + ([_etdump_of(ctx, runtime)] if etdump else [])
    fit_file = ctx.actions.declare_file(ctx.label.name + ".fit.json")
    flags = ctx.actions.declare_file(ctx.label.name + ".link_flags")
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--runtime", runtime.label)
    args.add("--platform", runtime.platform)
    args.add("--runtime_version", runtime.executorch_version)
    inputs = _schema_headers(runtime)
    args.add_all(inputs, before_each = "--header")
    for program in programs:
        args.add_all("--program", [program.label, program.program, program.summary])
        inputs += [program.program, program.summary]
    roles = {runtime.core.label: "core"}
    roles.update({library.label: "always" for library in always})
    libraries = depset(
        [runtime.core] + runtime.libraries + always,
        transitive = [l.deps for l in [runtime.core] + runtime.libraries + always],
    ).to_list()
    for library in libraries:
        deps = [d.label for d in library.deps.to_list()]
        args.add("--" + roles.get(library.label, "library"))
        args.add_all([library.label, library.file, library.registered])

        # No label has a line feed.
        args.add_joined(deps, join_with = "\n", omit_if_empty = False)
        inputs.append(library.registered)
    for kernel in kernels:
        info = kernel[KernelsInfo]
        args.add_all("--kernels", [kernel.label, info.files[0] if info.files else "none.a", info.registered, ""])
        inputs.append(info.registered)
    args.add("--fit", fit_file)
    args.add("--link_flags", flags)
    linker_action(
        ctx,
        module = "etbundle.fit",
        arguments = args,
        inputs = inputs,
        outputs = [fit_file, flags],
        # They are in the linker's flags.
        maps_paths = False,
        mnemonic = "EtFit",
        progress_message = "Checking that %{label} has all that its programs use",
    )
    return struct(
        json = fit_file,
        link_flags = flags,
        linked = [library.file for library in libraries],
        libraries = libraries,
    )

def _schema_headers(runtime):
    """The header that says which programs the runtime reads; own headers may lack it."""
    return [
        header
        for header in runtime.headers.compilation_context.headers.to_list()
        if header.path.endswith(PROGRAM_HEADER)
    ][:1]

def _etdump_of(ctx, runtime):
    if not runtime.etdump:
        fail(("%s: etdump: the runtime %s (%s) has no library that records events. Use one that was built " +
              "with EXECUTORCH_ENABLE_EVENT_TRACER, or remove etdump.") %
             (ctx.label, runtime.label, runtime.platform))
    return runtime.etdump
