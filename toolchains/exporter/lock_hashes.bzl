"""Hashes out of locks, for repository rules."""

_HASH = "--hash=sha256:"

def lock_hashes(rctx, locks, requirement):
    """The hashes of a package's files. The repository depends on the locks from then on.

    Args:
      rctx: repository context.
      locks: list of labels of requirement files with hashes.
      requirement: "package==version", in lower case.

    Returns:
      A list of strings: sha256 of every file of that version.
    """
    package, _, expected = requirement.partition("==")
    got = None
    for label in locks:
        path = rctx.path(label)
        if hasattr(rctx, "watch"):
            rctx.watch(path)
        for line in rctx.read(path).replace("\\\n", " ").split("\n"):
            name, _, rest = line.partition("==")
            if name.strip().lower() != package:
                continue
            words = rest.split(" ")
            got = words[0].strip(";")
            if got.split("+")[0] == expected:
                return [word[len(_HASH):] for word in words if word.startswith(_HASH)]
    fail(("@{}: {}: version in the locks: got {}, expected {}.\n  locks: {}\nMake the version attributes of " +
          "executorch.exporter() and its locks agree: bazel run " +
          "@rules_executorch//toolchains/exporter:lock.update").format(
        rctx.name,
        package,
        got or "none",
        expected,
        ", ".join([str(label) for label in locks]),
    ))
