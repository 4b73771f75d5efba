"""Checks recipe options at analysis, before anything runs."""

load("//rules/private:amounts.bzl", "number_of", "unsigned")

_TRUE_FALSE = ["true", "false", "1", "0", "yes", "no", "on", "off"]

def check_option_types(label, types):
    """Fails on an unknown type.

    Args:
      label: of the recipe.
      types: dict of option name to type.
    """
    for name, kind in types.items():
        plain = kind in ("int", "float", "bool", "text") or "|" in kind
        at_least = kind.startswith("int>=") and kind[5:].isdigit()
        multiple = kind.startswith("int*") and kind[4:].isdigit() and int(kind[4:]) > 0
        if not plain and not at_least and not multiple:
            fail(("%s: option_types: type of \"%s\": got \"%s\", expected int, int>=N, int*N, float, bool, " +
                  "text or a|b|c.") % (label, name, kind))

def check_options(label, options, types):
    """Fails on an option that the recipe does not take, or on a value of another type.

    Args:
      label: of the recipe.
      options: dict of strings.
      types: dict of option name to type; None: anything goes.
    """
    if types == None:
        return
    for name, value in options.items():
        if name not in types:
            known = ", ".join(["%s (%s)" % (n, t) for n, t in sorted(types.items())])
            fail("%s: unknown option \"%s\". %s" % (
                label,
                name,
                "It takes: %s." % known if known else "This recipe takes none.",
            ))
        expected = mismatch(value, types[name])
        if expected:
            fail("%s: option \"%s\": got \"%s\", expected %s." % (label, name, value, expected))

def mismatch(value, kind):
    """Compares an option's value with its type, as tools/etbuild/options.py does.

    Args:
      value: a string.
      kind: the type.

    Returns:
      The expected form of a value that does not have its type; else an empty string.
    """
    if kind == "text":
        return ""
    if kind == "bool":
        return "" if value.lower() in _TRUE_FALSE else "true or false"
    if kind == "float":
        return "a number" if number_of(value) == None else ""
    if kind.startswith("int"):
        return _int_mismatch(value, kind)
    return "" if value in kind.split("|") else "one of " + ", ".join(kind.split("|"))

def _int_mismatch(value, kind):
    number = int(value) if unsigned(value).isdigit() else None
    if kind.startswith("int>="):
        ok = number != None and number >= int(kind[5:])
        return "" if ok else "a whole number of at least " + kind[5:]
    if kind.startswith("int*"):
        step = int(kind[4:])
        ok = number != None and number > 0 and number % step == 0
        return "" if ok else "a positive multiple of %d" % step
    return "" if number != None else "a whole number"
