"""Repositories of what a wheel holds, pinned by hash: single files, or whole folders."""

load("//toolchains/exporter:downloads.bzl", "reproducible")
load("//toolchains/exporter:extract.bzl", "extract")
load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE")
load("//toolchains/exporter:lock_hashes.bzl", "locked_file")
load("//toolchains/exporter:package_file.bzl", "package_file")

def unpack_wheel(rctx, requirement, sha256, platform = "", urls = {}):
    """Fetches a wheel and unpacks it.

    Args:
      rctx: repository context.
      requirement: "package==version".
      sha256: of the wheel, a list: one of them must be its hash.
      platform: platform tag of the wheel; empty: the host's.
      urls: dict of sha256 to URLs, before those of the root module's lists.

    Returns:
      A path: the folder `unpacked`.
    """

    # Bazel tells an archive's kind by its name; a wheel is a zip.
    package_file(rctx, requirement = requirement, sha256 = sha256, output = "wheel.zip", platform = platform, urls = urls)
    extract(rctx, "wheel.zip", "unpacked", "the wheel of " + requirement)
    rctx.delete("wheel.zip")
    return rctx.path("unpacked")

def move_unpacked(rctx, folder, source_by_path, origin):
    """Moves files and folders of an unpacked archive to their paths in the repository.

    Args:
      rctx: repository context.
      folder: path of the unpacked archive.
      source_by_path: path in the repository to path in the archive.
      origin: what the archive is, for messages.
    """
    for target, source in source_by_path.items():
        path = folder.get_child(source)
        if not path.exists:
            fail("@%s: %s: \"%s\" not found." % (rctx.name, origin, source))
        rctx.execute(["mkdir", "-p", str(rctx.path(target).dirname)])
        moved = rctx.execute(["mv", str(path), target])
        if moved.return_code:
            fail("@%s: %s cannot be written: %s" % (rctx.name, target, moved.stderr))
    rctx.delete("unpacked")

def _move(rctx, source_by_path):
    """Fetches the wheel of the attributes and moves what is taken of it; returns whether it is one file for all."""
    if getattr(rctx.attr, "locks", None):
        file = locked_file(rctx, rctx.attr.locks, rctx.attr.requirement)
    else:
        sha256 = rctx.attr.sha256
        file = struct(hashes = [sha256], urls = {sha256: rctx.attr.urls} if rctx.attr.urls else {})
    folder = unpack_wheel(rctx, rctx.attr.requirement, file.hashes, rctx.attr.platform, file.urls)
    move_unpacked(rctx, folder, source_by_path, "the wheel of " + rctx.attr.requirement)
    return len(file.hashes) == 1

_FOLDER = """
filegroup(
    name = "%s",
    srcs = glob(["%s/**"]),
)
"""

def _wheel_files_impl(rctx):
    is_one_file = _move(rctx, rctx.attr.files)
    paths = sorted(rctx.attr.files.keys())
    folders = [path for path in paths if rctx.path(path).is_dir]
    files = [path for path in paths if path not in folders]
    rctx.file("BUILD.bazel", "\n".join([
        "package(default_visibility = [\"//visibility:public\"])",
        "",
        "exports_files(%r)" % files,
    ]) + "\n" + "".join([_FOLDER % (path, path) for path in folders]))
    return reproducible(rctx, is_one_file)

wheel_files = repository_rule(
    implementation = _wheel_files_impl,
    doc = "Files and folders out of a wheel, from its URL or else from where pip's settings on the machine lead.",
    attrs = {
        "files": attr.string_dict(mandatory = True),
        "platform": attr.string(),
        "requirement": attr.string(mandatory = True),
        "sha256": attr.string(mandatory = True),
        "urls": attr.string_list(doc = "Of the wheel, for Bazel's downloader."),
    },
    environ = [PYTHON_VARIABLE],
)

def _wheel_folders_impl(rctx):
    is_one_file = _move(rctx, rctx.attr.folders)
    rctx.template("BUILD.bazel", rctx.attr.build_file, rctx.attr.substitutions, executable = False)
    return reproducible(rctx, is_one_file)

wheel_folders = repository_rule(
    implementation = _wheel_folders_impl,
    doc = "Folders of a wheel, of any system, with a BUILD file: e.g. a C++ library and its headers.",
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "folders": attr.string_dict(mandatory = True),
        "locks": attr.label_list(
            allow_files = [".txt"],
            doc = "Instead of sha256: locks, of which one has the requirement with its hashes.",
        ),
        "platform": attr.string(),
        "requirement": attr.string(mandatory = True),
        "sha256": attr.string(),
        "substitutions": attr.string_dict(doc = "Text in the BUILD file to what replaces it."),
        "urls": attr.string_list(doc = "Of the wheel with the sha256, for Bazel's downloader."),
    },
    environ = [PYTHON_VARIABLE],
)
