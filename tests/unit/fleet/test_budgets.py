"""Budgets of classes of devices: which programs they are for."""

from __future__ import annotations

import pytest
from etbuild.errors import BuildError
from etbundle.variants import budgets
from etbundle.variants.devices import Device

_FLEET = [
    Device("small", {"platform": ("android_arm64",), "ram_gb": ("4",)}),
    Device("large", {"platform": ("android_arm64",), "ram_gb": ("12",), "soc": ("SM8650",)}),
]
_PROGRAMS = [["//:rest"], ["//:npu", "//:rest"]]


def test_a_class_bounds_what_its_devices_may_run() -> None:
    """The best program, and those to fall back to."""
    given = [
        budgets.parse('[{"fact": "ram_gb", "below": "6"}]', '{"max_rss_mb": 900}'),
        budgets.parse('[{"fact": "ram_gb", "at_least": "4"}]', '{"max_instructions": 4e9}'),
    ]
    assert budgets.rows("//:v", given, _FLEET, _PROGRAMS) == [
        {
            "class": "ram_gb < 6",
            "devices": 1,
            "bounds": {"max_rss_mb": 900},
            "programs": ["//:rest"],
        },
        {
            "class": "ram_gb >= 4",
            "devices": 2,
            "bounds": {"max_instructions": 4e9},
            "programs": ["//:npu", "//:rest"],
        },
    ]


def test_a_class_without_devices() -> None:
    given = [budgets.parse('[{"fact": "ram_gb", "any_of": ["5"]}]', '{"max_rss_mb": 900}')]
    with pytest.raises(BuildError) as caught:
        budgets.rows("//:v", given, _FLEET, _PROGRAMS)
    assert caught.value.what == (
        "//:v: budgets: ram_gb = 5: no device of the table is of this class."
    )
