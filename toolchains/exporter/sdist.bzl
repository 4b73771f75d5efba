"""Repositories of what a source archive of a Python package holds, pinned by hash: C libraries in it."""

load("//toolchains/exporter:downloads.bzl", "download_known", "reproducible")
load("//toolchains/exporter:extract.bzl", "extract")
load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE")
load("//toolchains/exporter:pip_download.bzl", "pip_download")
load("//toolchains/exporter:wheel.bzl", "move_unpacked")

# pip asks the package itself what it is called before it hands out its archive. This replaces the
# package's build system, so that nothing of the package runs and none of its build tools is fetched.
_BACKEND = """\
import pathlib, sys

def get_requires_for_build_wheel(config_settings=None):
    return []

def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = pathlib.Path(metadata_directory, "{name}-{version}.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
    return folder.name

__legacy__ = sys.modules[__name__]
"""

def _unpack(rctx, archive, folder, origin):
    """Unpacks an archive; returns the path of the only folder in it."""
    extract(rctx, archive, folder, origin)
    return rctx.path(folder).readdir()[0]

def _pip_archive(rctx):
    name, version = rctx.attr.requirement.split("==")
    backend = rctx.attr.build_backend.split(":")[0].split(".")
    for depth in range(1, len(backend)):
        rctx.file("backend/%s/__init__.py" % "/".join(backend[:depth]))
    rctx.file(
        "backend/%s.py" % "/".join(backend),
        _BACKEND.format(name = name.replace("-", "_"), version = version),
    )
    return pip_download(
        rctx,
        requirement = rctx.attr.requirement,
        sha256 = [rctx.attr.sha256],
        what = "source",
        options = ["--no-binary=:all:", "--no-build-isolation"],
        environment = {"PYTHONPATH": str(rctx.path("backend"))},
    )

def _sdist_folders_impl(rctx):
    # Bazel tells an archive's kind by its name.
    archive = rctx.path("download/source.tar.gz")
    if not download_known(rctx, sha256 = [rctx.attr.sha256], output = archive):
        archive = _pip_archive(rctx)
    origin = "the source of " + rctx.attr.requirement
    top = _unpack(rctx, archive, "unpacked", origin)
    if rctx.attr.archive:
        inner = top.get_child(rctx.attr.archive)
        if not inner.exists:
            fail("@%s: %s: \"%s\" not found." % (rctx.name, origin, rctx.attr.archive))
        top = _unpack(rctx, inner, "unpacked/inner", rctx.attr.archive + " in " + origin)
    for leftover in ("download", "backend"):
        rctx.delete(leftover)
    move_unpacked(rctx, top, rctx.attr.folders, origin)
    rctx.template("BUILD.bazel", rctx.attr.build_file, executable = False)
    return reproducible(rctx)

sdist_folders = repository_rule(
    implementation = _sdist_folders_impl,
    doc = "Folders and files of a source archive, from its URL or else through pip and its settings on the " +
          "machine, with a BUILD file. Nothing of the package runs.",
    attrs = {
        "archive": attr.string(
            doc = "Path of an archive in the archive, whose files they are.",
        ),
        "build_backend": attr.string(
            default = "setuptools.build_meta",
            doc = "As in the package's pyproject.toml.",
        ),
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "folders": attr.string_dict(
            mandatory = True,
            doc = "Path in the repository to path in the archive; what lies inside of another one first.",
        ),
        "requirement": attr.string(mandatory = True, doc = "\"package==version\"."),
        "sha256": attr.string(mandatory = True),
    },
    environ = [PYTHON_VARIABLE],
)
