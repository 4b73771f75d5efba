"""Unpacked archives: what of them goes where in a repository."""

load("//toolchains/exporter:extract.bzl", "extract")
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

def unpack_inner(rctx, folder, name, origin):
    """Replaces an archive in an unpacked archive by a folder of its contents.

    Args:
      rctx: repository context.
      folder: path of the unpacked archive.
      name: path of the archive in it.
      origin: what the outer archive is, for messages.
    """
    archive = folder.get_child(name)
    if not archive.exists:
        fail("@%s: %s: archive \"%s\" not found." % (rctx.name, origin, name))

    # AARs and JARs are zips, which Bazel would not know by their names.
    inner = "inner.tar.gz" if name.endswith(".tar.gz") else "inner.zip"
    rctx.execute(["mv", archive, inner])
    extract(rctx, inner, archive, "%s in %s" % (name, origin))
    rctx.delete(inner)

def move_unpacked(rctx, folder, source_by_path, origin):
    """Moves files and folders of an unpacked archive to their paths in the repository.

    Args:
      rctx: repository context.
      folder: path of the unpacked archive.
      source_by_path: path in the repository to path in the archive; what lies inside of another one first.
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
