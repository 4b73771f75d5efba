"""Repositories of what a source archive of a Python package holds, pinned by hash: C libraries in it."""

load("//toolchains/exporter:downloads.bzl", "reproducible")
load("//toolchains/exporter:extract.bzl", "extract")
load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE")
load("//toolchains/exporter:package_file.bzl", "package_file")
load("//toolchains/exporter:wheel.bzl", "move_unpacked")

def _unpack(rctx, archive, folder, origin):
    """Unpacks an archive; returns the path of the only folder in it."""
    extract(rctx, archive, folder, origin)
    return rctx.path(folder).readdir()[0]

def _change(rctx, path, changes):
    """Replaces texts in a file of the repository."""
    text = rctx.read(path)
    for i in range(0, len(changes), 2):
        if changes[i] not in text:
            fail("@%s: %s lacks a text to replace, of another version: %s" % (rctx.name, path, changes[i]))
        text = text.replace(changes[i], changes[i + 1])
    rctx.file(path, text, executable = False)

def _sdist_folders_impl(rctx):
    # Bazel tells an archive's kind by its name.
    archive = rctx.path("source.tar.gz")
    package_file(
        rctx,
        is_source = True,
        output = archive,
        requirement = rctx.attr.requirement,
        sha256 = [rctx.attr.sha256],
    )
    origin = "the source of " + rctx.attr.requirement
    top = _unpack(rctx, archive, "unpacked", origin)
    if rctx.attr.archive:
        inner = top.get_child(rctx.attr.archive)
        if not inner.exists:
            fail("@%s: %s: \"%s\" not found." % (rctx.name, origin, rctx.attr.archive))
        top = _unpack(rctx, inner, "unpacked/inner", rctx.attr.archive + " in " + origin)
    rctx.delete(archive)
    move_unpacked(rctx, top, rctx.attr.folders, origin)
    for path, changes in rctx.attr.changes.items():
        _change(rctx, path, changes)
    rctx.template("BUILD.bazel", rctx.attr.build_file, executable = False)
    return reproducible(rctx)

sdist_folders = repository_rule(
    implementation = _sdist_folders_impl,
    doc = "Folders and files of a source archive, from its URL or else from where pip's settings on the " +
          "machine lead, with a BUILD file. Nothing of the package runs.",
    attrs = {
        "archive": attr.string(
            doc = "Path of an archive in the archive, whose files they are.",
        ),
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "changes": attr.string_list_dict(
            doc = "Path of a file in the repository to texts in it, each followed by what replaces it.",
        ),
        "folders": attr.string_dict(
            mandatory = True,
            doc = "Path in the repository to path in the archive; what lies inside of another one first.",
        ),
        "requirement": attr.string(mandatory = True, doc = "\"package==version\"."),
        "sha256": attr.string(mandatory = True),
    },
    environ = [PYTHON_VARIABLE],
)
