"""The repository rule that makes the Python environment in which models are exported.

The repository holds a private copy of an interpreter and the packages of one or more locks:

- `//:interpreter`: the program `python/bin/python3.11`;
- `//:python_home`: the standard library and shared libraries that it finds in `python/lib`;
- `//:site_packages`, `//:light`, `//:programs`: a folder each. These folders and `python/lib` are inputs as
  a whole, and the time of change by which Bazel knows such a folder follows from its contents;
- `//:environment.json`: versions of interpreter and packages, the locks' hash, a digest of it all.

`lite` holds what tools without torch need to read and write programs, `bin` the programs that
were asked for in `scripts`.
"""

load("//toolchains/exporter:downloads.bzl", "LOCK_COMMENT", "merged_file_urls", "parse_file_urls")
load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "PYTHON_VERSION", "find_host_python")
load("//toolchains/exporter:package_file.bzl", "fetch_files", "pinned_file")
load("//toolchains/python:paths.bzl", "own_name")

# Everything that the installer consists of: a change makes the environment again.
_INSTALLER = [
    Label("//toolchains/exporter/install:" + file)
    for file in [
        "__init__.py",
        "__main__.py",
        "bootstrap.py",
        "bytecode.py",
        "cli.py",
        "environment.py",
        "errors.py",
        "files.py",
        "interpreter.py",
        "lite.py",
        "locks.py",
        "manifest.py",
        "markers.py",
        "packages.py",
        "prune.py",
        "relocation.py",
        "scripts.py",
        "shared.py",
    ]
] + [
    Label("//toolchains/exporter/fetch:" + file)
    for file in [
        "__init__.py",
        "tags.py",
    ]
] + [
    Label("//toolchains/exporter/locks:prune.toml"),
    Label("//toolchains/exporter/locks:tools.txt"),
]

_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["environment.json"])

filegroup(
    name = "interpreter",
    srcs = ["python/bin/python{version}"],
)
{folders}
"""

_LAYER_BUILD = """\
package(default_visibility = ["//visibility:public"])

exports_files(["environment.json"])
{folders}
"""

# Single files, beside the folder that they are in: an action has either among its inputs.
_METADATA = """
filegroup(
    name = "metadata_files",
    srcs = glob(
        ["site-packages/*.dist-info/METADATA"],
        allow_empty = True,
    ),
)
"""

_FOLDER = """
filegroup(
    name = "{name}",
    srcs = {srcs},
)
"""

def _watched(rctx, label):
    """The path of a file of ours, which the repository depends on from now on."""
    path = rctx.path(label)
    if hasattr(rctx, "watch"):
        rctx.watch(path)
    return path

def _check_versions(rctx):
    """Fails where a package that the user named a version of has another one."""
    versions = json.decode(rctx.read("environment.json"))["versions"]
    for package, expected in rctx.attr.versions.items():
        got = versions.get(package, "none")
        if got.split("+")[0] != expected:
            fail(("@{}: {}: version in the lock: got {}, expected {}.\nMake the version attributes of " +
                  "executorch.exporter() and its locks agree: bazel run " +
                  "@rules_executorch//toolchains/exporter:lock.update").format(rctx.name, package, got, expected))

# The exit code of the installer where it lacks files: another workspace's packages were changed, and so are not linked.
_MISSING_FILES = 3

def _run_installer(rctx, arguments, quiet, may_lack_files = False):
    """Runs the installer; returns what it prints, or fails with its message; None: it lacks files."""
    result = rctx.execute(arguments, timeout = 3600, quiet = quiet)
    if result.return_code == _MISSING_FILES and may_lack_files:
        return None
    if result.return_code != 0:
        said = result.stderr.strip()
        if "error: " in said:
            said = said[said.rindex("\nerror: ") + 1 if "\nerror: " in said else said.index("error: "):]
        fail("@{}: the exporter environment could not be installed\n{}".format(rctx.name, said))
    return result.stdout

def _fetch_wheels(rctx, arguments):
    """Downloads the wheels that the installer needs to `files/<package>/<name>`."""
    said = _run_installer(rctx, arguments + ["--needed"], quiet = True)
    needed = json.decode(said.strip().split("\n")[-1])
    locks = rctx.attr.locks + [label for label in _INSTALLER if label.name.endswith(".txt")]
    urls = merged_file_urls([parse_file_urls(rctx.read(label), str(label), LOCK_COMMENT) for label in locks])
    files = []
    for entry in needed:
        package, _, version = entry["requirement"].partition("==")
        files.append(pinned_file(
            entry["requirement"],
            entry["sha256"],
            "files/%s/%s-%s.whl" % (package, package, version),
            indexes = [rctx.attr.torch_index] if package == "torch" and rctx.attr.torch_index else [],
        ))
    rctx.report_progress("downloading %d packages" % len(files))
    fetch_files(rctx, files, urls)

def _install(rctx, arguments):
    for may_lack_files in (True, False):
        _fetch_wheels(rctx, arguments)
        rctx.report_progress("installing the packages of " + ", ".join([label.name for label in rctx.attr.locks]))
        done = _run_installer(rctx, arguments + ["--files", "files"], quiet = False, may_lack_files = may_lack_files)
        rctx.delete("files")
        if done != None:
            break

def _link_libraries(rctx, folder):
    """Links `libx.so` to `libx.so.2`, and `libx.dylib` to `libx.2.dylib`: wheels leave out the names that runtimes open."""
    names = {file.basename: file for file in rctx.path(folder).readdir()}
    for name in sorted(names):
        stem, dot, version = name.partition(".so.")
        short = stem + ".so" if dot else ""
        if name.endswith(".dylib") and name.count(".") > 1:
            short = name.partition(".")[0] + ".dylib"
        if short and short not in names:
            names[short] = None
            rctx.symlink(names[name], "%s/%s" % (folder, short))

def _python_environment_impl(rctx):
    locks = [_watched(rctx, label) for label in rctx.attr.locks]
    installer = [_watched(rctx, label) for label in _INSTALLER][0].dirname
    python = find_host_python(rctx, rctx.attr.python)
    if hasattr(rctx, "watch"):
        rctx.watch(rctx.path(python).realpath)

    arguments = [python, "-I", "-B", installer, "--python", python, "--output", ".", "--share"]
    for lock in locks:
        arguments += ["--locks", lock]
    if rctx.attr.lite:
        arguments.append("--lite")
    if rctx.attr.purpose:
        arguments += ["--purpose", "%s: %s" % (own_name(rctx.name), rctx.attr.purpose)]
    for script in rctx.attr.scripts:
        arguments += ["--scripts", script]
    for label in rctx.attr.base_locks:
        arguments += ["--base_locks", _watched(rctx, label)]

    _install(rctx, arguments)
    _check_versions(rctx)

    for folder in rctx.attr.library_paths:
        _link_libraries(rctx, "site-packages/" + folder)

    folders = {
        "site_packages": ["site-packages"],
        "light": ["lite"] if rctx.attr.lite else [],
        "programs": ["bin"] if rctx.attr.scripts else [],
    }
    if not rctx.attr.base_locks:
        # Not python/ as a whole: a sandbox cannot hold a folder and, as another input, a file in it.
        libraries = [path.basename for path in rctx.path("python").readdir() if path.basename != "bin"]
        folders["python_home"] = ["python/" + name for name in sorted(libraries)]
    rctx.file("BUILD.bazel", (_LAYER_BUILD if rctx.attr.base_locks else _BUILD).format(
        version = PYTHON_VERSION,
        folders = "".join([
            _FOLDER.format(name = name, srcs = repr(srcs))
            for name, srcs in folders.items()
        ]),
    ) + _METADATA + rctx.attr.build_file_content)

python_environment = repository_rule(
    implementation = _python_environment_impl,
    doc = "A hermetic Python environment, from the host's interpreter and locked packages.",
    attrs = {
        "base_locks": attr.label_list(
            allow_files = [".txt"],
            doc = "Locks of the environment that this one is a layer of. A layer gets no " +
                  "interpreter, and of its own locks' packages only those that the base lacks.",
        ),
        "build_file_content": attr.string(
            doc = "Text that is added to the repository's BUILD.bazel, such as a toolchain's target.",
        ),
        "library_paths": attr.string_list(
            doc = "Folders of site-packages with shared libraries, which get links without versions.",
        ),
        "lite": attr.bool(
            default = True,
            doc = "Create the torch-free folder; the locks must name executorch then.",
        ),
        "locks": attr.label_list(
            allow_files = [".txt"],
            default = [Label("//toolchains/exporter/locks:exporter_cp311.txt")],
            doc = "Locks: requirement files of `name==version --hash=sha256:…`, nothing else. " +
                  "A package may be in several if its version is the same.",
        ),
        "purpose": attr.string(
            doc = "Purpose of the packages, which is printed while they are fetched.",
        ),
        "python": attr.string(
            doc = "The interpreter to copy: a path, or a name on PATH; default: the exporter's.",
        ),
        "scripts": attr.string_list(
            doc = "Names of programs that packages bring, to create in //:programs.",
        ),
        "torch_index": attr.string(
            default = "https://download.pytorch.org/whl/cpu",
            doc = "The package index that torch's CPU build comes from, unless pip's own settings " +
                  "on this machine have one. Empty: pip's own settings only.",
        ),
        "versions": attr.string_dict(
            doc = "Package to the version that the locks must have; a local part is left out of account.",
        ),
    },
    environ = [PYTHON_VARIABLE],
)
