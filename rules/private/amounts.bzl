"""Checks numbers in string attributes at analysis, so that no lowering runs before a typing error is found."""

# The grammar is that of tools/etlink/amounts.py: tests/unit/etbuild/grammar.bzl tests both.

# Longer ones first: the end of a text says which it is.
_UNITS = {
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "kB": 1000,
    "MB": 1000 * 1000,
    "GB": 1000 * 1000 * 1000,
    "B": 1,
}

def number_of(text):
    """Reads a number as Python's float() does, without its words ("inf") and underscores.

    Args:
      text: a string such as "1e-4".

    Returns:
      A float, or None if it is no number.
    """
    mantissa, e, exponent = text.lower().partition("e")
    if unsigned(mantissa).replace(".", "", 1).isdigit() and (not e or unsigned(exponent).isdigit()):
        return float(text)
    return None

def unsigned(text):
    """Removes a sign from a text's beginning."""
    return text[1:] if text[:1] in ("+", "-") else text

def check_at_least_zero(label, attribute, text):
    """Fails unless a string is a number of at least 0.

    Args:
      label: of the target.
      attribute: its name.
      text: its value.
    """
    number = number_of(text)
    if number == None or number < 0:
        fail("%s: %s: got \"%s\", expected a number of at least 0 such as \"1e-4\"." % (label, attribute, text))

def check_count(label, attribute, text):
    """Fails unless a string is a number above 0.

    Args:
      label: of the target.
      attribute: its name.
      text: its value.
    """
    number = number_of(text)
    if number == None or number <= 0:
        fail("%s: %s: got \"%s\", expected a number above 0 such as \"1200000\" or \"1.2e6\"." % (label, attribute, text))

def check_number(label, attribute, text):
    """Fails unless a string is a number.

    Args:
      label: of the target.
      attribute: its name.
      text: its value.
    """
    if number_of(text) == None:
        fail("%s: %s: got \"%s\", expected a number such as \"30\"." % (label, attribute, text))

def check_percentage(label, attribute, text):
    """Fails unless a string is a percentage.

    Args:
      label: of the target.
      attribute: its name.
      text: its value.
    """
    if percent_of(text) == None:
        fail("%s: %s: got \"%s\", expected a percentage such as \"90%%\"." % (label, attribute, text))

def check_amount(label, attribute, text):
    """Fails unless a string is a percentage or a number of bytes.

    Args:
      label: of the target.
      attribute: its name.
      text: its value.
    """
    if percent_of(text) == None and bytes_of(text) == None:
        fail(("%s: %s: got \"%s\", expected a percentage or a number of bytes such as \"95%%\", \"100000000\", " +
              "\"100 MB\" or \"95 MiB\".") % (label, attribute, text))

def check_bytes(label, attribute, text):
    """Fails unless a string is a number of bytes that a program can have.

    Args:
      label: of the target.
      attribute: its name.
      text: its value.
    """
    if not bytes_of(text):
        fail(("%s: %s: got \"%s\", expected a number of bytes above 0 such as \"100000000\", \"100 MB\" or " +
              "\"95 MiB\".") % (label, attribute, text))

def percent_of(text):
    """Reads a percentage.

    Args:
      text: a string such as "95%".

    Returns:
      A float, at most 100, or None if it is no percentage.
    """
    number = _decimal(text.removesuffix("%")) if text.endswith("%") else None
    return None if number == None or number > 100 else number

def bytes_of(text):
    """Reads an amount in bytes.

    Args:
      text: a string such as "100000000", "100 MB" or "95 MiB".

    Returns:
      A float, or None if it is no number of bytes.
    """
    for unit, factor in _UNITS.items():
        if text.endswith(unit):
            number = _decimal(text.removesuffix(unit).rstrip(" "))
            return None if number == None else number * factor
    return _decimal(text)

def _decimal(text):
    whole, point, fraction = text.partition(".")
    return float(text) if whole.isdigit() and (not point or fraction.isdigit()) else None
