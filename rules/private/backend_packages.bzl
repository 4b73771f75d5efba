"""Packages of a recipe's backends and of a model, as inputs and flags of the exporter."""

def running_packages(label, recipe, model = None):
    """Lists the packages with which this machine runs a recipe's programs: emulators, where backends have them.

    Args:
      label: Label of what is built, for messages.
      recipe: EtRecipeInfo.
      model: LowerableInfo of the eager model, if it runs, too.

    Returns:
      List of EtPackagesInfo, each once.
    """
    return _collected(
        label,
        recipe,
        model,
        {b.label: b.emulator or b.packages for b in recipe.backends.to_list()},
    )

def emulated_runtime(label, layers):
    """Finds what runs programs in place of this machine's runtime.

    Args:
      label: Label of what is built, for messages.
      layers: list of EtPackagesInfo.

    Returns:
      `runtime` of one of them, or None.
    """
    having = [layer for layer in layers if layer.runtime]
    if len(having) > 1:
        fail(("%s: the backends run in different runtimes: got %s, expected one et_packages with a runtime. Test " +
              "a program for each backend.") % (label, ", ".join([str(layer.label) for layer in having])))
    return having[0].runtime if having else None

def recipe_packages(label, recipe, model = None):
    """Lists the packages that a recipe's backends and a model's code need beside the exporter's environment.

    Args:
      label: Label of what is built, for messages.
      recipe: EtRecipeInfo, or None.
      model: LowerableInfo, or None.

    Returns:
      List of EtPackagesInfo, each once.
    """
    backends = recipe.backends.to_list() if recipe else []
    return _collected(label, recipe, model, {b.label: b.packages for b in backends})

def _collected(label, recipe, model, of_backends):
    by_label = {packages.label: packages for packages in (model.packages if model else [])}
    for packages in by_label.values():
        if packages.missing:
            fail("%s: %s needs %s: %s" % (label, model.label, packages.label, packages.missing))
    for backend, layers in of_backends.items():
        for packages in layers:
            if packages.missing:
                fail("%s: %s delegates to the backend %s: %s" % (label, recipe.label, backend, packages.missing))
            by_label[packages.label] = packages
    return by_label.values()

def add_packages(args, packages):
    """Adds a flag for each; tools/etlower/packages.py reads them.

    Args:
      args: Args that a worker is started with.
      packages: list of EtPackagesInfo.

    Returns:
      List of FilesToRunProvider: the action's tools.
    """
    args.add_all(packages, map_each = _packages_flag, before_each = "--packages")
    return [entry.holder for entry in packages]

def _packages_flag(packages):
    """The flag's value, encoded where the line is written: all programs of a backend have the same."""
    runfiles = packages.holder.executable.path + ".runfiles/"
    return json.encode(struct(
        programs = [runfiles + path for path in packages.programs],
        roots = [runfiles + path for path in packages.roots],
        stamp = runfiles + packages.stamp_path,
        variables = {name: runfiles + path for name, path in packages.variables.items()},
    ))
