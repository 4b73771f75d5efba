"""Describes a release as far as analysis knows it, as JSON for EtRelease."""

load("//toolchains/python:paths.bzl", "readable_label")

# A repository of the module extension. The names of its others begin as its name does.
_MODELS = Label("@executorch_models//:origins.json")

def app_description(app, *, file):
    """Describes an app.

    Args:
      app: EtAppInfo.
      file: string: path of its archive in the release; empty: it is there as part of a package only.

    Returns:
      Struct, encodable as JSON.
    """
    return struct(
        label = readable_label(app.label),
        name = app.name,
        platform = app.platform,
        file = file,
        manifest = app.manifest.path,
        runtime = struct(
            label = readable_label(app.runtime.label),
            version = app.runtime.executorch_version,
        ),
        libraries = [_library(library) for library in app.libraries if library.folder],
        linked = app.linked_packages,
    )

def _library(library):
    """A shared library, with the paths in the app of all that belongs to it."""
    folder = library.file.dirname + "/"
    inside = [library.file.basename] + [
        f.path.removeprefix(folder) if f.path.startswith(folder) else f.basename
        for f in library.resources
    ]
    return struct(
        label = readable_label(library.label),
        paths = ["%s/%s" % (library.folder, path) for path in inside],
        purl = library.purl,
        license = library.license,
    )

def package_description(package, *, file):
    """Describes an APK, AAR or Swift package.

    Args:
      package: EtAppPackageInfo.
      file: string: its path in the release.

    Returns:
      Struct, encodable as JSON.
    """
    return struct(
        label = readable_label(package.label),
        kind = package.kind,
        file = file,
        signing_key = package.signing_key,
        apps = [readable_label(app.label) for app in package.apps],
    )

def program_description(program):
    """Describes how a program is built.

    Args:
      program: EtProgramInfo.

    Returns:
      Struct, encodable as JSON.
    """
    return struct(
        label = readable_label(program.label),
        model = readable_label(model_of(program).label),
        recipe = program.recipe.tree,
        packages = [readable_label(entry.label) for entry in backend_packages([program])],
    )

def model_of(program):
    """The model that a program's weights come from: of one that was exported before, its code.

    Args:
      program: EtProgramInfo.

    Returns:
      LowerableInfo.
    """
    return program.lowered.model.lowerable

def model_description(model):
    """The files of a model.

    Args:
      model: LowerableInfo.

    Returns:
      Struct, encodable as JSON.
    """
    return struct(
        label = readable_label(model.label),
        entry_point = model.entry_point,
        files = [
            struct(label = readable_label(f.owner), path = f.path, repository = _name_in_tag(f.owner))
            for f in model_files(model)
        ],
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

def labels_of_repositories(apps, programs):
    """One label of each repository that a description names, but for the main one.

    Bazel writes labels on command lines, and so into what actions write, as the main repository would
    ("@repo//x:y"), and as strings in its own way ("@@repo~1.0//x:y"): EtRelease is told of both.

    Args:
      apps: list of EtAppInfo.
      programs: list of EtProgramInfo.

    Returns:
      List of Labels.
    """
    labels = [app.label for app in apps] + [app.runtime.label for app in apps]
    labels += [library.label for app in apps for library in app.libraries]
    labels += [entry.label for entry in backend_packages(programs)]
    for program in programs:
        labels += [program.label, model_of(program).label, program.recipe.label]
        labels += [backend.label for backend in program.backends.to_list()]
        labels += [f.owner for f in model_files(model_of(program))]
    return {label.repo_name: label for label in labels if label.repo_name}.values()

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
