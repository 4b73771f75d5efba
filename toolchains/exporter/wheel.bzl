"""wheel_files: a repository of files out of one wheel, pinned by hash."""

load("//toolchains/exporter:host_python.bzl", "PYTHON_VARIABLE", "find_host_python")

def _wheel_files_impl(rctx):
    python = find_host_python(rctx, "")
    rctx.file("requirement.txt", "%s --hash=sha256:%s\n" % (rctx.attr.requirement, rctx.attr.sha256))
    rctx.report_progress("downloading " + rctx.attr.requirement)
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
        ],
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
    for name, path in rctx.attr.files.items():
        source = rctx.path("unpacked").get_child(path)
        if not source.exists:
            fail("@%s: the wheel of %s has no file \"%s\"." % (rctx.name, rctx.attr.requirement, path))
        rctx.execute(["mkdir", "-p", str(rctx.path(name).dirname)])
        moved = rctx.execute(["mv", str(source), name])
        if moved.return_code:
            fail("@%s: can't place %s: %s" % (rctx.name, name, moved.stderr))
    for leftover in ("wheel.zip", "wheel", "unpacked", "requirement.txt"):
        rctx.delete(leftover)
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
