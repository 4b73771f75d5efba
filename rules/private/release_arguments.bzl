"""Arguments of EtRelease: all that analysis knows of a release."""

load("//toolchains/python:paths.bzl", "pair_format")

# A repository of the module extension. The names of its others begin as its name does.
_MODELS = Label("@executorch_models//:origins.tsv")

def add_app(args, app, *, file):
    """Adds what is known of an app.

    Args:
      args: Args.
      app: EtAppInfo.
      file: string: path of its archive in the release; empty: it is there as part of a package only.
    """
    runtime = app.runtime
    fields = [app.label, app.name, app.platform, file, app.manifest, runtime.label, runtime.executorch_version]
    args.add_all("--app", fields)
    for library in app.libraries:
        if library.folder:
            args.add_all("--library", [app.label, library.purl, library.license] + _paths(library))
    for purl, license in app.linked_packages.items():
        args.add_all("--linked", [app.label, purl, license])

def _paths(library):
    """The paths in an app of all that belongs to a shared library."""
    folder = library.file.dirname + "/"
    inside = [library.file.basename] + [
        f.path.removeprefix(folder) if f.path.startswith(folder) else f.basename
        for f in library.resources
    ]
    return ["%s/%s" % (library.folder, path) for path in inside]

def add_package(args, package, *, file):
    """Adds what is known of an APK, AAR or Swift package.

    Args:
      args: Args.
      package: EtAppPackageInfo.
      file: string: its path in the release.
    """
    fields = [package.label, package.kind, file, package.signing_key]
    args.add_all("--package", fields + [app.label for app in package.apps])

def add_program(args, program):
    """Adds how a program is built.

    Args:
      args: Args.
      program: EtProgramInfo.
    """
    fields = [program.label, model_of(program).label, program.recipe.label, json.encode(program.recipe.tree)]
    args.add_all("--program", fields + [entry.label for entry in backend_packages([program])])

def model_of(program):
    """The model that a program's weights come from.

    Args:
      program: EtProgramInfo.

    Returns:
      LowerableInfo.
    """
    return program.lowered.model.lowerable

def add_model(args, model):
    """Adds the files of a model.

    Args:
      args: Args.
      model: LowerableInfo.
    """
    args.add_all("--model", [model.label, model.entry_point])
    for file in model_files(model):
        args.add_all(
            "--weights",
            [model.label, file.owner, file, _name_in_tag(file.owner)],
            expand_directories = False,
        )

def _name_in_tag(label):
    """The name that a tag of the module extension gives to a label's repository; empty: none does."""
    prefix = _MODELS.repo_name.removesuffix("executorch_models")
    return label.repo_name.removeprefix(prefix) if label.repo_name.startswith(prefix) else ""

def model_files(model):
    """The files that a model gets its weights from.

    Args:
      model: LowerableInfo.

    Returns:
      List of Files.
    """
    return model.data.to_list()

def backend_packages(programs):
    """Lists what the backends of programs took beside the exporter's packages.

    Args:
      programs: list of EtProgramInfo.

    Returns:
      List of EtPackagesInfo, each once.
    """
    by_label = {}
    for program in programs:
        for backend in program.backends.to_list():
            for packages in backend.packages:
                by_label[packages.label] = packages
    return by_label.values()

def add_files(args, files):
    """Adds the files of a release.

    Args:
      args: Args.
      files: list of struct(path, file).
    """
    for entry in files:
        args.add("--file", entry.file, format = pair_format(entry.path))

def metadata_of(exporter):
    """METADATA of the exporter's packages.

    Args:
      exporter: EtExporterInfo.

    Returns:
      List of Files.
    """
    given = exporter.metadata_files.to_list()
    return given or [
        f
        for f in exporter.packages.to_list()
        if f.basename == "METADATA" and f.dirname.endswith(".dist-info")
    ]
