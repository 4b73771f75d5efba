"""Google Play, as its documentation describes device targeting: which group a device gets.

Independent of the code that writes groups: it reads the XML file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

_NS = "{http://schemas.android.com/apk/config}"
# Element to its attributes that must be there, and those that may.
_ATTRIBUTES = {
    "device-targeting-config": (set(), set()),
    "device-group": ({"name"}, set()),
    "device-selector": (set(), {"ram-min-bytes", "ram-max-bytes"}),
    "included-device-id": ({"brand"}, {"device"}),
    "excluded-device-id": ({"brand"}, {"device"}),
    "required-system-feature": ({"name"}, set()),
    "forbidden-system-feature": ({"name"}, set()),
    "system-on-chip": ({"manufacturer", "model"}, set()),
}
_CHILDREN = {
    "device-targeting-config": {"device-group"},
    "device-group": {"device-selector"},
    "device-selector": {name for name in _ATTRIBUTES if name.endswith(("-id", "-feature", "chip"))},
}


def read(text: str) -> ElementTree.Element:
    """Parses a configuration and checks it against the documented form.

    Raises:
      AssertionError: it is not in that form.
    """
    root = ElementTree.fromstring(text.encode())
    assert root.tag == f"{_NS}device-targeting-config"
    for element in root.iter():
        assert element.tag.startswith(_NS)
        tag = element.tag.removeprefix(_NS)
        must, may = _ATTRIBUTES[tag]
        assert must <= element.attrib.keys() <= must | may, (tag, element.attrib)
        children = {child.tag.removeprefix(_NS) for child in element}
        assert children <= _CHILDREN.get(tag, set()), (tag, children)
    names = [group.attrib["name"] for group in root]
    assert len(set(names)) == len(names)
    assert "other" not in names
    for group in root:
        assert re.fullmatch(r"[A-Za-z]\w*", group.attrib["name"], re.ASCII)
        assert 1 <= len(group) <= 5
        assert sum(c.tag == f"{_NS}included-device-id" for s in group for c in s) <= 10_000
        for selector in group:
            for value in (v for k, v in selector.attrib.items() if k.startswith("ram-")):
                assert 0 < int(value) < 2**63
            assert selector.attrib or len(selector), "a selector without properties"
    return root


def group_of(config: ElementTree.Element, device: Mapping[str, object]) -> str:
    """Returns the first group of a device: `ram` (bytes), `maker`, `model`, `brand`, `device`."""
    for group in config:
        if any(_selects(selector, device) for selector in group):
            return group.attrib["name"]
    return "other"


def _selects(selector: ElementTree.Element, device: Mapping[str, object]) -> bool:
    ram = int(str(device["ram"]))
    if ram < int(selector.get("ram-min-bytes", 0)):
        return False
    if "ram-max-bytes" in selector.attrib and ram >= int(selector.attrib["ram-max-bytes"]):
        return False
    chips = selector.findall(f"{_NS}system-on-chip")
    if chips and not any(
        (c.attrib["manufacturer"], c.attrib["model"]) == (device["maker"], device["model"])
        for c in chips
    ):
        return False
    ids = selector.findall(f"{_NS}included-device-id")
    return not ids or any(
        i.attrib["brand"] == device["brand"] and i.get("device") in (None, device["device"])
        for i in ids
    )
