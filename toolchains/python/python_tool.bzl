"""Command lines of our own Python programs, in actions and in runfiles."""

load("//toolchains/python:paths.bzl", "runfiles_path")

# -B: write no bytecode; -s: no user's packages; -P: no packages beside the script.
INTERPRETER_FLAGS = ["-B", "-s", "-P"]

# Results must depend neither on the order of hashes nor on the number of cores: calibration runs
# real arithmetic. Its instructions are the machine's, as for those who export by hand.
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
}

_SEED = "PYTHONHASHSEED"

def action_environment(ctx):
    """Environment variables of an action that runs our Python.

    Args:
      ctx: rule context.

    Returns:
      None, as the tool's script sets ENVIRONMENT and each action would keep a copy. Another hash seed
      where `--action_env=PYTHONHASHSEED=…` is given, to see that nothing depends on it.
    """
    seed = ctx.configuration.default_shell_env.get(_SEED)
    return {_SEED: seed} if seed else None

# The packages that lower and link, all imported from the launcher's folder; each a filegroup of sources.
TOOLS = {
    "etbuild": Label("//tools/etbuild:files"),
    "etlower": Label("//tools/etlower:files"),
    "etfast": Label("//tools/etfast:files"),
    "etlink": Label("//tools/etlink:files"),
    "ettune": Label("//tools/ettune:files"),
}
LAUNCHER = Label("//tools:launch.py")

# What only actions on apps and reports need: its changes lower and test nothing again.
BUNDLER = Label("//tools/etbundle:files")
MOBILE = Label("//tools/etbundle/mobile:files")
REPORT = Label("//tools/etcli/report:files")

def tool_attributes():
    """Implicit attributes of a rule that runs our Python programs.

    Returns:
      Dict for a rule's attrs.
    """
    attributes = {
        "_" + name: attr.label(default = label, allow_files = True)
        for name, label in TOOLS.items()
    }
    attributes["_launcher"] = attr.label(default = LAUNCHER, allow_single_file = True)
    return attributes

def tool_files(ctx):
    """Files of our tools.

    Args:
      ctx: rule context with `tool_attributes`.

    Returns:
      Depset of Files.
    """

    # The filegroups' own depsets: a new one for each target would hold a list of all files once more.
    return depset(
        [ctx.file._launcher],
        transitive = [getattr(ctx.attr, "_" + name)[DefaultInfo].files for name in TOOLS],
    )

def import_root(files, package):
    """Folder that a package of ours is imported from, in actions.

    Args:
      files: list of Files: some of the package.
      package: its name.

    Returns:
      A path.
    """
    return files[0].path.rpartition("/%s/" % package)[0]

def launcher_script(
        ctx,
        output,
        *,
        interpreter,
        roots = [],
        words = [],
        enter = False,
        path_variables = {},
        list_variables = {},
        library_paths = []):
    """Writes a shell script that runs our Python with a module, from the script's runfiles.

    Args:
      ctx: rule context with `tool_attributes`.
      output: File to write.
      interpreter: File.
      roots: import roots beside that of our own packages, as runfiles paths.
      words: the module and its arguments; more come from the script's own command line.
      enter: whether to change to the main repository's runfiles first.
      path_variables: environment variables: name to a list of runfiles paths, joined by colons.
      list_variables: environment variables: name to a list of words, joined by colons.
      library_paths: folders of shared libraries, as runfiles paths.
    """
    environment = [_exported(k, v) for k, v in sorted(ENVIRONMENT.items())]
    for name, paths in sorted(path_variables.items()):
        environment.append(_exported(name, ":".join(["$runfiles/" + p for p in paths])))
    for name, values in sorted(list_variables.items()):
        environment.append(_exported(name, ":".join(values)))
    environment += library_path_lines(library_paths)
    command = ["\"$interpreter\""] + INTERPRETER_FLAGS
    launcher = runfiles_path(ctx.file._launcher)
    command.append("\"$runfiles/%s\"" % launcher)
    for root in [launcher.rpartition("/")[0]] + roots:
        command.append("--path \"$runfiles/%s\"" % root)
    ctx.actions.write(
        output,
        _SCRIPT.format(
            environment = "".join(environment),
            enter = _ENTER if enter else "",
            interpreter = runfiles_path(interpreter),
            interpreter_folder = runfiles_path(interpreter).rsplit("/", 2)[0],
            command = " \\\n  ".join(command + [_quoted(w) for w in words]),
        ),
        is_executable = True,
    )

def library_path_lines(paths):
    """Lines of a shell script that put folders of $runfiles on the search path of shared libraries.

    Args:
      paths: list of runfiles paths.

    Returns:
      A list of strings, each with its line feed.
    """
    folders = ":".join(["$runfiles/" + path for path in paths])
    return [
        "export {0}=\"{1}${{{0}:+:${0}}}\"\n".format(name, folders)
        for name in (["DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH"] if paths else [])
    ]

# Where the user is, as `bazel run` says it, too.
_ENTER = """export BUILD_WORKING_DIRECTORY="${BUILD_WORKING_DIRECTORY:-$PWD}"
cd "$runfiles/_main"
"""

_SCRIPT = """#!/bin/sh
# Runs a Python program of rules_executorch from the runfiles of this script.
set -eu
case "$0" in /*) self=$0 ;; *) self=${{PWD%/}}/$0 ;; esac
runfiles=$self.runfiles
[ -d "$runfiles" ] || runfiles=${{RUNFILES_DIR:-${{TEST_SRCDIR:-$runfiles}}}}
interpreter=$runfiles/{interpreter}
# On remote workers Bazel before 8.3 has folders of runfiles only where they lie for actions. Elsewhere
# the interpreter is a link, or has its libraries beside it.
if [ ! -h "$interpreter" ] && [ ! -e "${{interpreter%/*}}/../lib" ]; then
  home=${{runfiles%/bazel-out/*}}/external/{interpreter_folder}
  if [ ! -e "$home/bin" ] && [ -d "$home/lib" ]; then
    # A test, which has nothing but runfiles.
    mkdir -p "$TEST_TMPDIR/python/bin"
    cp "$interpreter" "$TEST_TMPDIR/python/bin"
    ln -s "$home/lib" "$TEST_TMPDIR/python/lib"
    home=$TEST_TMPDIR/python
  fi
  [ ! -d "$home/lib" ] || interpreter=$home/bin/${{interpreter##*/}}
fi
# What `bazel run` hands on of a user's shell: other packages must not hide these.
unset PYTHONHOME PYTHONPATH
{environment}{enter}exec {command} \\
  "$@"
"""

def _exported(name, value):
    # An action may ask for another hash seed.
    return "export %s=\"%s\"\n" % (name, "${%s:-%s}" % (name, value) if name == _SEED else value)

def _quoted(word):
    return "'" + word.replace("'", "'\\''") + "'"
