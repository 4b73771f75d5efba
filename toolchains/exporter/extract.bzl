"""Unpacking in repository rules."""

load("//toolchains/exporter:host_python.bzl", "find_host_python")

_CHECK = Label("//toolchains/exporter:check_archive.py")

def extract(rctx, archive, output, what):
    """Unpacks an archive whose members all lie in it.

    Bazel's own extraction follows `..` in their names, and writes through links.

    Args:
      rctx: repository context.
      archive: path of the archive; Bazel tells its kind by its name.
      output: folder in the repository.
      what: the archive, for messages: "the wheel of a==1".
    """
    checked = rctx.execute([find_host_python(rctx), "-I", "-B", rctx.path(_CHECK), archive])
    if checked.return_code:
        fail("@%s: %s is refused: %s Do not use this file. Fetch it again; if it stays so, report the package to its registry." %
             (rctx.name, what, checked.stderr.strip().split("\n")[-1]))
    rctx.extract(archive, output = output)
