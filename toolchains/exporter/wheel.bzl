"""Repositories of what a wheel holds, pinned by hash: single files, or whole folders."""

load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "find_host_python")

# pip wants it named where the wheel may be of another system.
_PYTHON_TAG = "3.11"

def _unpack(rctx, platform = ""):
    """Downloads a wheel through pip and its settings on the machine, and unpacks it.

    Args:
      rctx: repository context, with the attributes `requirement` and `sha256`.
      platform: platform tag of the wheel; empty: the host's.

    Returns:
      A path: the folder `unpacked`.
    """
    python = find_host_python(rctx, "")
    rctx.file("requirement.txt", "%s --hash=sha256:%s\n" % (rctx.attr.requirement, rctx.attr.sha256))
    rctx.report_progress("downloading " + rctx.attr.requirement)
    foreign = ["--platform=" + platform, "--python-version=" + _PYTHON_TAG] if platform else []
    result = rctx.execute(
        [
            python,
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
            "--disable-pip-version-check",
            "--quiet",
            "--dest=wheel",
            "--requirement=requirement.txt",
        ] + foreign,
        timeout = 3600,
    )
    if result.return_code:
        fail(("@%s: the wheel of %s can't be had (sha256 wanted: %s). pip says:\n%s%s\n" +
              "Check the network and pip's settings (pip config list); a hash mismatch means a " +
              "truncated download or another file.") %
             (rctx.name, rctx.attr.requirement, rctx.attr.sha256, result.stdout, result.stderr))

    # Bazel tells an archive's kind by its name; a wheel is a zip.
    rctx.symlink(rctx.path("wheel").readdir()[0], "wheel.zip")
    rctx.extract("wheel.zip", output = "unpacked")
    return rctx.path("unpacked")

def _move(rctx, source, name):
    """Moves a file or folder of the wheel to its place in the repository."""
    path = rctx.path("unpacked").get_child(source)
    if not path.exists:
        fail("@%s: the wheel of %s has no \"%s\"." % (rctx.name, rctx.attr.requirement, source))
    rctx.execute(["mkdir", "-p", str(rctx.path(name).dirname)])
    moved = rctx.execute(["mv", str(path), name])
    if moved.return_code:
        fail("@%s: can't place %s: %s" % (rctx.name, name, moved.stderr))

def _clean(rctx):
    for leftover in ("wheel.zip", "wheel", "unpacked", "requirement.txt"):
        rctx.delete(leftover)

def _wheel_files_impl(rctx):
    _unpack(rctx)
    for name, path in rctx.attr.files.items():
        _move(rctx, path, name)
    _clean(rctx)
    rctx.file("BUILD.bazel", "exports_files(%r, visibility = [\"//visibility:public\"])\n" %
                             sorted(rctx.attr.files.keys()))

wheel_files = repository_rule(
    implementation = _wheel_files_impl,
    doc = "Files out of a wheel, through pip and its settings on the machine.",
    attrs = {
        "files": attr.string_dict(mandatory = True),
        "requirement": attr.string(mandatory = True),
        "sha256": attr.string(mandatory = True),
    },
    environ = [PYTHON_VARIABLE],
)

def _wheel_folders_impl(rctx):
    _unpack(rctx, rctx.attr.platform)
    for name, path in rctx.attr.folders.items():
        _move(rctx, path, name)
    _clean(rctx)
    rctx.template("BUILD.bazel", rctx.attr.build_file, rctx.attr.substitutions, executable = False)

wheel_folders = repository_rule(
    implementation = _wheel_folders_impl,
    doc = "Folders of a wheel, of any system, with a BUILD file: e.g. a C++ library and its headers.",
    attrs = {
        "build_file": attr.label(mandatory = True, allow_single_file = True),
        "folders": attr.string_dict(mandatory = True),
        "platform": attr.string(),
        "requirement": attr.string(mandatory = True),
        "sha256": attr.string(mandatory = True),
        "substitutions": attr.string_dict(doc = "Text in the BUILD file to what stands in its place."),
    },
    environ = [PYTHON_VARIABLE],
)
