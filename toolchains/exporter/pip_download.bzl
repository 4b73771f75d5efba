"""Archives of Python packages, through pip and its settings on the machine, pinned by hash."""

load("//toolchains/exporter:host_python.bzl", "find_host_python")

def pip_download(rctx, *, requirement, sha256, what, options, environment = {}):
    """Downloads an archive into the folder `download`.

    Args:
      rctx: repository context.
      requirement: "package==version".
      sha256: of the archive, a list: one of them must be its hash.
      what: what is downloaded of the package, for messages: "wheel".
      options: list of strings: of `pip download`.
      environment: dict of variables for pip.

    Returns:
      A path: the archive.
    """
    hashes = " ".join(["--hash=sha256:" + h for h in sha256])
    rctx.file("requirement.txt", "%s %s\n" % (requirement, hashes))
    rctx.report_progress("downloading the %s of %s" % (what, requirement))
    result = rctx.execute(
        [
            find_host_python(rctx),
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--require-hashes",
            "--disable-pip-version-check",
            "--quiet",
            "--dest=download",
            "--requirement=requirement.txt",
        ] + options,
        environment = environment,
        timeout = 3600,
    )
    if result.return_code:
        fail(("@%s: the %s of %s cannot be fetched (expected sha256: %s). pip says:\n%s%s\n" +
              "Check the network and pip's settings (pip config list). A hash mismatch means a " +
              "truncated download or another file.") %
             (rctx.name, what, requirement, " or ".join(sha256), result.stdout, result.stderr))
    rctx.delete("requirement.txt")
    return rctx.path("download").readdir()[0]
