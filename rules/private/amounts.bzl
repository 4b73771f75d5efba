"""Checks numbers in string attributes at analysis, so that no lowering runs before a typing error is found."""

_UNITS = ["KiB", "MiB", "GiB", "kB", "MB", "GB", "B"]

def number_of(text):
    """Reads a number as Python's float() does, without its words ("inf") and underscores.

    Args:
      text: a string such as "1e-4".

    Returns:
      A float, or None if it is no number.
    """
    mantissa, e, exponent = text.lower().partition("e")
    if _unsigned(mantissa).replace(".", "", 1).isdigit() and (not e or _unsigned(exponent).isdigit()):
        return float(text)
    return None

def _unsigned(text):
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
    if not _is_percentage(text):
        fail("%s: %s: got \"%s\", expected a percentage such as \"90%%\"." % (label, attribute, text))

def check_amount(label, attribute, text):
    """Fails unless a string is a percentage or a number of bytes.

    Args:
      label: of the target.
      attribute: its name.
      text: its value.
    """
    if not _is_percentage(text) and _bytes(text) == None:
        fail(("%s: %s: got \"%s\", expected a percentage or a number of bytes such as \"95%%\", \"100000000\", " +
              "\"100 MB\" or \"95 MiB\".") % (label, attribute, text))

def check_bytes(label, attribute, text):
    """Fails unless a string is a number of bytes that a program can have.

    Args:
      label: of the target.
      attribute: its name.
      text: its value.
    """
    if not _bytes(text):
        fail(("%s: %s: got \"%s\", expected a number of bytes above 0 such as \"100000000\", \"100 MB\" or " +
              "\"95 MiB\".") % (label, attribute, text))

def _is_percentage(text):
    number = _decimal(text.removesuffix("%")) if text.endswith("%") else None
    return number != None and number <= 100

def _bytes(text):
    """The number of an amount in bytes, in whatever unit; None if it is none."""
    for unit in _UNITS:
        if text.endswith(unit):
            return _decimal(text.removesuffix(unit).rstrip(" "))
    return _decimal(text)

def _decimal(text):
    whole, point, fraction = text.partition(".")
    return float(text) if whole.isdigit() and (not point or fraction.isdigit()) else None
