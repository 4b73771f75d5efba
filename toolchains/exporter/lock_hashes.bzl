"""Hashes and URLs out of locks, for repository rules."""

load("//toolchains/exporter:downloads.bzl", "LOCK_COMMENT", "merged_file_urls", "parse_file_urls")

_HASH = "--hash=sha256:"

def locked_file(rctx, locks, requirement):
    """A package's files as locks have them. The repository depends on the locks from then on.

    Args:
      rctx: repository context.
      locks: list of labels of requirement files with hashes.
      requirement: "package==version", in lower case.

    Returns:
      A struct(hashes, urls): the sha256 of every file of that version; URLs by sha256, of all packages.
    """
    package, _, expected = requirement.partition("==")
    got = None
    urls = {}
    for label in locks:
        path = rctx.path(label)
        if hasattr(rctx, "watch"):
            rctx.watch(path)
        text = rctx.read(path)
        urls = merged_file_urls([urls, parse_file_urls(text, str(label), LOCK_COMMENT)])
        for line in text.replace("\\\n", " ").split("\n"):
            name, _, rest = line.partition("==")
            if name.strip().lower() != package:
                continue
            words = rest.split(" ")
            got = words[0].strip(";")
            if got.split("+")[0] == expected:
                hashes = [word[len(_HASH):] for word in words if word.startswith(_HASH)]
                return struct(hashes = hashes, urls = urls)
    fail(("@{}: {}: version in the locks: got {}, expected {}.\n  locks: {}\nMake the version attributes of " +
          "executorch.exporter() and its locks agree: bazel run " +
          "@rules_executorch//toolchains/exporter:lock.update").format(
        rctx.name,
        package,
        got or "none",
        expected,
        ", ".join([str(label) for label in locks]),
    ))
