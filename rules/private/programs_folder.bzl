"""Programs and what they load as plain files below a folder, with a manifest."""

load("//rules/private:app_files.bzl", "add_programs", "below_its_package", "data_files", "package_path")
load("//toolchains/exporter:exporter.bzl", "EXPORTER_TOOLCHAIN")
load("//toolchains/exporter:linker_action.bzl", "linker_action")

def programs_folder(ctx, *, root, programs, files, variants = [], platforms = [], runtime_version = ""):
    """Declares links to programs and what they load, and writes their manifest.

    Args:
      ctx: rule context with the exporter toolchain.
      root: folder, relative to the package, with a slash at the end.
      programs: list of EtProgramInfo.
      files: list of Files that go to `assets/`.
      variants: list of EtVariantsInfo that programs are of.
      platforms: list of strings: platforms that the manifest names.
      runtime_version: version of the runtime that comes along; empty: none does.

    Returns:
      struct(files = list of struct(path, file), manifest = File); the manifest is among the files.
    """
    links = link_programs(ctx, root = root, programs = programs, files = files)
    manifest = ctx.actions.declare_file(root + "manifest.json")
    describe_programs(
        ctx,
        manifest = manifest,
        programs = programs,
        variants = variants,
        files = files,
        platforms = platforms,
        runtime_version = runtime_version,
    )
    links.append(struct(path = "manifest.json", file = manifest))
    return struct(files = links, manifest = manifest)

def link_programs(ctx, *, root, programs, files = []):
    """Declares links to programs and what they load.

    Args:
      ctx: rule context.
      root: folder, relative to the package, with a slash at the end.
      programs: list of EtProgramInfo.
      files: list of Files that go to `assets/`.

    Returns:
      List of struct(path, file).
    """
    return [
        struct(path = path, file = link_file(ctx, root + path, file))
        for path, file in _paths(ctx, programs, files).items()
    ]

def describe_programs(ctx, *, manifest, programs, variants = [], files = [], platforms = [], runtime_version = ""):
    """EtApp: the manifest of programs and what they load.

    Args:
      ctx: rule context with the exporter toolchain.
      manifest: File to write (JSON).
      programs: list of EtProgramInfo.
      variants: list of EtVariantsInfo that programs are of.
      files: list of Files that go to `assets/`.
      platforms: list of strings: platforms that the manifest names.
      runtime_version: version of the runtime that comes along; empty: none does.
    """
    args = ctx.actions.args()
    args.add("--label", ctx.label)
    args.add("--exporter_version", ctx.toolchains[EXPORTER_TOOLCHAIN].exporter.executorch_version)
    if runtime_version:
        args.add("--runtime_version", runtime_version)
    args.add_all(platforms, before_each = "--platform")
    inputs = add_programs(args, programs, variants)
    args.add_all(files, map_each = below_its_package, before_each = "--asset")
    args.add("--manifest", manifest)
    linker_action(
        ctx,
        module = "etbundle.app",
        arguments = args,
        inputs = inputs + files,
        outputs = [manifest],
        mnemonic = "EtApp",
        progress_message = "Describing %{label}",
    )

def link_file(ctx, path, file):
    """Declares a link to a file.

    Args:
      ctx: rule context.
      path: of the link, relative to the package.
      file: File.

    Returns:
      File.
    """
    link = ctx.actions.declare_file(path)
    ctx.actions.symlink(output = link, target_file = file)
    return link

def _paths(ctx, programs, files):
    """Path in the folder to its file."""
    files_by_path = {}
    for program in programs:
        _add(ctx, files_by_path, "programs/%s.pte" % program.label.name, program.program)
    for file in data_files(programs):
        _add(ctx, files_by_path, "data/" + file.basename, file)
    for file in files:
        _add(ctx, files_by_path, "assets/" + package_path(file), file)
    return files_by_path

def _add(ctx, files_by_path, path, file):
    other = files_by_path.setdefault(path, file)
    if other != file:
        fail("%s: two files would be %s: %s of %s and %s of %s. Rename one of the targets." %
             (ctx.label, path, other.short_path, other.owner, file.short_path, file.owner))
