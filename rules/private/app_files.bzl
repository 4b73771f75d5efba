"""Programs and files of apps on command lines."""

load("//toolchains/python:paths.bzl", "pair")

def data_files(programs):
    """The .ptd files that programs may load, each once, with the label of its target.

    Args:
      programs: list of EtProgramInfo.

    Returns:
      Dict of File to Label.
    """
    data = {}
    for program in programs:
        if program.own_data:
            data[program.own_data] = program.label
        for shared in program.shared_data:
            data[shared.data] = shared.label
    return data

def add_programs(args, programs):
    """Adds --program and --data.

    Args:
      args: Args.
      programs: list of EtProgramInfo.

    Returns:
      List of Files that were named.
    """
    inputs = []
    for program in programs:
        args.add_all(
            "--program",
            [program.label, program.label.name, program.program, program.manifest],
        )
        inputs += [program.program, program.manifest]
    for file, label in data_files(programs).items():
        args.add_all("--data", [label, file])
        inputs.append(file)
    return inputs

def below_its_package(file):
    """"<path in the app>=<file>": files keep their path below their package.

    Args:
      file: File.

    Returns:
      A string, for Args.
    """
    return pair(package_path(file), file.path)

def license_path(file):
    """Place of a license: its path below its package, in a folder for its repository.

    Args:
      file: File.

    Returns:
      A string.
    """
    repository = file.owner.repo_name.split("~")[-1].split("+")[-1] or "app"
    return "%s/%s" % (repository, package_path(file))

def by_repository(file):
    """"<path among licenses>=<file>".

    Args:
      file: File.

    Returns:
      A string, for Args.
    """
    return pair(license_path(file), file.path)

def package_path(file):
    """Path of a file below the package that it is of.

    Args:
      file: File.

    Returns:
      A string.
    """
    path = file.short_path
    if path.startswith("../"):
        path = path.split("/", 2)[2]
    return path.removeprefix(file.owner.package + "/")
