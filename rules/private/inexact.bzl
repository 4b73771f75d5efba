"""Names of operators that a recipe may leave to a delegate that computes something else."""

load("//toolchains/python:paths.bzl", "first_repeated")

# As CHOICES of tools/etbuild/exact/table.py.
_NAMES = ["addmm", "bilinear", "gelu", "reflection_pad"]

def check_inexact(label, names):
    """Fails on a name that no recipe knows, or on one that stands there twice.

    Args:
      label: of the recipe.
      names: of `allow_inexact`.
    """
    repeated = first_repeated(names)
    if repeated:
        fail("%s: allow_inexact lists \"%s\" twice. Remove one of them." % (label, repeated))
    for name in names:
        if name not in _NAMES:
            close = _closest(name)
            fail("%s: allow_inexact: got \"%s\", expected one of %s.%s" % (
                label,
                name,
                ", ".join(_NAMES),
                " Did you mean \"%s\"?" % close if close else "",
            ))

def _closest(name):
    """The known name that shares most pairs of letters with another one; None: none shares any."""
    best, most = None, 0
    for known in _NAMES:
        shared = len([n for n in range(len(name) - 1) if name[n:n + 2] in known])
        if shared > most:
            best, most = known, shared
    return best
