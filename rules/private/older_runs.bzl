"""Runs of a program on older runtimes: what is checked at analysis and in EtFit, and the test's arguments."""

load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")
load("//toolchains/older:inventory.bzl", "read_inventory")
load("//toolchains/older:older_library.bzl", "EtOlderLibraryInfo", "older_transition")
load("//toolchains/runtime:older.bzl", "OLDER_RUNTIMES")
load("//toolchains/runtime:older_versions.bzl", "EtOlderVersionsInfo")

OLDER_ATTRIBUTES = {
    "_inventories": attr.label(allow_single_file = True, default = "//toolchains/older:inventories.json"),
    "_older_libraries": attr.label(cfg = older_transition, default = "//toolchains/older:library"),
    "_older_versions": attr.label(
        default = "@executorch_older_runtimes//:versions",
        providers = [EtOlderVersionsInfo],
    ),
}

def older_runs(ctx, program, layers):
    """Declares the check of a program against the versions of `runtimes`.

    Args:
      ctx: rule context with OLDER_ATTRIBUTES, the attribute `runtimes` and the exporter toolchain.
      program: EtProgramInfo.
      layers: list of EtPackagesInfo that its backend brings.

    Returns:
      struct(words, files): arguments of the test; list of Files.
    """
    _check_versions(ctx)
    if not ctx.attr.runtimes:
        return struct(words = [], files = [])
    if layers:
        fail(("%s: runtimes: got %s, expected none: a backend of %s runs only with the packages that it brings. " +
              "Remove runtimes.") % (ctx.label, ", ".join(ctx.attr.runtimes), program.label))
    libraries = {version: target[EtOlderLibraryInfo] for version, target in ctx.split_attr._older_libraries.items()}
    words = ["--executorch_version", ctx.toolchains[EXPORTER_TOOLCHAIN].exporter.executorch_version]
    files = []
    for version in ctx.attr.runtimes:
        older = libraries[version]
        if not older.library:
            fail(("%s: runtimes: older runtimes run on Linux on x86_64. Remove runtimes, or set " +
                  "target_compatible_with to that platform.") % ctx.label)
        words += ["--older", version]
        words += [file.short_path for file in (older.library, older.runtime[0], older.python_names)]
        files += older.files
    return struct(words = words, files = files + [_fit(ctx, program, libraries)])

def _check_versions(ctx):
    known = ctx.attr._older_versions[EtOlderVersionsInfo].versions
    for number, version in enumerate(ctx.attr.runtimes):
        if version in ctx.attr.runtimes[:number]:
            fail("%s: runtimes: got \"%s\" twice, expected it once. Remove one of them." % (ctx.label, version))
        if version not in known:
            fail(("%s: runtimes: got \"%s\", expected one of %s. Or declare a version from 1.3.0 on in MODULE.bazel: " +
                  "executorch.older_runtime(executorch_version = \"%s\", sha256 = \"…\").") %
                 (ctx.label, version, ", ".join(known), version))

def _fit(ctx, program, libraries):
    output = ctx.actions.declare_file(ctx.label.name + ".older_fit")
    declared = [
        read_inventory(ctx, version, libraries[version])
        for version in ctx.attr.runtimes
        if version not in OLDER_RUNTIMES
    ]
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add_all("--program", [program.label, program.program])
    args.add("--inventories", ctx.file._inventories)
    args.add_all(declared, before_each = "--inventory")
    args.add_all(ctx.attr.runtimes, before_each = "--version")
    args.add("--output", output)
    linker_action(
        ctx,
        module = "etbundle.older_fit",
        arguments = args,
        inputs = [program.program, ctx.file._inventories] + declared,
        outputs = [output],
        mnemonic = "EtFit",
        progress_message = "Checking that older runtimes have all that %{label} uses",
    )
    return output
