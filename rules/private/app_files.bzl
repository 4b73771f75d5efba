"""Programs and files of apps on command lines."""

load("//rules/private:conditions.bzl", "fits_platform")
load("//rules/private:providers.bzl", "EtProgramInfo", "EtVariantsInfo")
load("//toolchains/python:paths.bzl", "own_name", "pair")

# Of what the runner and its C interface contain.
RUNNER_LICENSES = [
    Label("//:LICENSE"),
    Label("@executorch_libunicode//:license/libunicode.h"),
    Label("@executorch_oniguruma//:license/COPYING"),
    Label("@executorch_runner_json//:license/LICENSE"),
]

# Resources that a single backend of a library reads, by file name.
_RESOURCES_OF_BACKENDS = {"mlx.metallib": "MLXBackend"}

def needed_resources(library, programs):
    """The resources of a library that programs need.

    Args:
      library: EtRuntimeLibraryInfo.
      programs: list of EtProgramInfo.

    Returns:
      List of Files.
    """
    used = {backend.id: True for program in programs for backend in program.backends.to_list()}
    unused = [name for name, backend in _RESOURCES_OF_BACKENDS.items() if backend not in used]
    return [file for file in library.resources if file.basename not in unused]

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

def programs_of(targets, platform = None):
    """Programs of targets, each once, and variants among them.

    Args:
      targets: list of Targets with EtProgramInfo or EtVariantsInfo.
      platform: name of the platform that they are for; None: for several.

    Returns:
      struct(programs = list of EtProgramInfo, variants = list of EtVariantsInfo). Variants that the platform cannot have
      are left out of the programs.
    """
    programs = {}
    variants = {}
    for target in targets:
        if EtProgramInfo in target:
            programs[target[EtProgramInfo].label] = target[EtProgramInfo]
        else:
            info = target[EtVariantsInfo]
            variants[info.label] = info
            for choice in info.choices:
                if platform == None or fits_platform(choice.conditions, platform):
                    programs[choice.program.label] = choice.program
    return struct(programs = programs.values(), variants = variants.values())

def add_programs(args, programs, variants = []):
    """Adds --program, --variants and --data.

    Args:
      args: Args.
      programs: list of EtProgramInfo.
      variants: list of EtVariantsInfo, whose programs are among those, or are not for the platform.

    Returns:
      List of Files that were named.
    """
    inputs = []
    for program in programs:
        args.add_all("--program", [program.program, program.manifest])
        inputs += [program.program, program.manifest]
    for info in variants:
        args.add_all("--variants", [info.name, info.table])
        inputs.append(info.table)
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

def license_paths(files):
    """Chooses a path for each license: that in its repository, in a folder for the repository.

    The folder has the last part of the repository's name, and the whole name where two repositories have the
    same last part. So no two files have one path.

    Args:
      files: list of Files.

    Returns:
      Dict of path ("oniguruma/COPYING") to File, sorted.
    """
    repositories = {}
    for file in files:
        repositories.setdefault(_last_part(file.owner.repo_name), {})[file.owner.repo_name] = None
    paths = {}
    for file in files:
        name = file.owner.repo_name
        folder = _last_part(name)
        if len(repositories[folder]) > 1:
            folder = name.replace("~", "_").replace("+", "_") or folder
        paths["%s/%s" % (folder, _path_in_repository(file))] = file
    return {path: paths[path] for path in sorted(paths)}

def _last_part(repository):
    return own_name(repository) or "app"

def _path_in_repository(file):
    path = file.short_path
    return path.split("/", 2)[2] if path.startswith("../") else path

def package_path(file):
    """Path of a file below the package that it is of.

    Args:
      file: File.

    Returns:
      A string.
    """
    return _path_in_repository(file).removeprefix(file.owner.package + "/")
