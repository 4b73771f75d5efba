"""Qualified names of weights."""

from __future__ import annotations

import re

_PARAMETRIZED = re.compile(r"\.parametrizations\.(\w+)\.original\d*$")


def plain_name(name: str) -> str:
    """A weight's name as the eager model has it: torchao's quantised parts belong to one weight.

    Example:

        plain_name("fc.parametrizations.weight.original0")    # "fc.weight"
    """
    return _PARAMETRIZED.sub(r".\1", name)
