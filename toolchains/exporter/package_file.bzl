"""Files of Python packages, pinned by hash: wheels and source archives come in one way.

A file comes from the first of these that has it: its URL, if one is known; Bazel's repository cache; the places
of pip's settings on the machine, which `fetch` reads. No pip runs, and nothing of the package does.
"""

load("//toolchains/exporter:downloads.bzl", "download_known")
load("//toolchains/exporter:host_python.bzl", "find_host_python", "host_platform")

_FETCH = Label("//toolchains/exporter/fetch:__main__.py")

def package_file(rctx, *, requirement, sha256, output, is_source = False, platform = "", urls = {}):
    """Puts a package's file at a path in the repository.

    Args:
      rctx: repository context.
      requirement: "package==version".
      sha256: list: one of them must be the file's hash.
      output: path in the repository.
      is_source: whether it is the source archive, not a wheel.
      platform: platform tag of the wheel; "": the host's.
      urls: dict of sha256 to URLs, before those of the root module's lists.
    """
    if download_known(rctx, sha256 = sha256, output = output, platform = platform, urls = urls):
        return

    # Of several hashes, the cache knows by this name which one is of this platform.
    name = "%s for %s" % (requirement, "source" if is_source else platform or host_platform(rctx))
    for one in sha256:
        if rctx.download([], output = output, sha256 = one, canonical_id = name, allow_fail = True).success:
            return
    rctx.report_progress("fetching %s of %s" % ("the source" if is_source else "the wheel", requirement))
    result = rctx.execute(
        [
            find_host_python(rctx),
            "-I",
            "-B",
            rctx.path(_FETCH).dirname,
            "--output=fetched",
            "--requirement=" + requirement,
            "--platform=" + platform,
        ] + (["--source"] if is_source else []) + ["--sha256=" + one for one in sha256],
        timeout = 3600,
    )
    if result.return_code:
        said = result.stderr.strip()
        fail("@%s: %s" % (rctx.name, said[said.find("error: ") + len("error: "):] if "error: " in said else said))
    file = json.decode(result.stdout)
    cached = rctx.download(
        [file["url"]],
        output = output,
        sha256 = file["sha256"],
        canonical_id = name,
        allow_fail = True,
    )
    if not cached.success:
        rctx.execute(["mv", file["path"], output])
    rctx.delete("fetched")
