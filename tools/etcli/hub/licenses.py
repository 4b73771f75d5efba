"""SPDX expressions of the licenses that the hub names in its own way."""

from __future__ import annotations

import re
from collections.abc import Sequence

_SPDX_BY_NAME = {
    "afl-3.0": "AFL-3.0",
    "apache-2.0": "Apache-2.0",
    "artistic-2.0": "Artistic-2.0",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-3-clause-clear": "BSD-3-Clause-Clear",
    "bsl-1.0": "BSL-1.0",
    "c-uda": "C-UDA-1.0",
    "cc0-1.0": "CC0-1.0",
    "cdla-permissive-1.0": "CDLA-Permissive-1.0",
    "cdla-permissive-2.0": "CDLA-Permissive-2.0",
    "cdla-sharing-1.0": "CDLA-Sharing-1.0",
    "ecl-2.0": "ECL-2.0",
    "epl-1.0": "EPL-1.0",
    "epl-2.0": "EPL-2.0",
    "eupl-1.1": "EUPL-1.1",
    "eupl-1.2": "EUPL-1.2",
    "isc": "ISC",
    "lppl-1.3c": "LPPL-1.3c",
    "mit": "MIT",
    "mpl-2.0": "MPL-2.0",
    "ms-pl": "MS-PL",
    "ncsa": "NCSA",
    "odbl": "ODbL-1.0",
    "odc-by": "ODC-By-1.0",
    "ofl-1.1": "OFL-1.1",
    "osl-3.0": "OSL-3.0",
    "pddl": "PDDL-1.0",
    "postgresql": "PostgreSQL",
    "unlicense": "Unlicense",
    "wtfpl": "WTFPL",
    "zlib": "Zlib",
    # The hub does not say whether later versions of the GNU licenses apply.
    "agpl-3.0": "AGPL-3.0-only",
    "gpl-2.0": "GPL-2.0-only",
    "gpl-3.0": "GPL-3.0-only",
    "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-3.0": "LGPL-3.0-only",
}

# Families that do not say which license it is, and names for "not known".
_UNKNOWN = frozenset(("bsd", "cc", "gfdl", "gpl", "lgpl", "unknown"))
_CREATIVE_COMMONS = re.compile(r"cc-by(-nc)?(-nd|-sa)?-[234]\.[05]")


def spdx(licenses: Sequence[str], name: str = "") -> str:
    """The SPDX expression of a model's licenses.

    Args:
      licenses: the hub's names: "apache-2.0", "llama3.2", "other".
      name: that the model's card gives "other".

    Returns:
      An expression such as "Apache-2.0", "LicenseRef-llama3.2", or "Apache-2.0 AND MIT" for
      several; empty: the hub does not say what the license is.

    Example:

        spdx(["apache-2.0"])  # "Apache-2.0"
    """
    identifiers = [_identifier(license, name) for license in licenses]
    if not all(identifiers):
        return ""
    return " AND ".join(sorted(set(identifiers)))


def _identifier(license: str, name: str) -> str:
    if license in _UNKNOWN:
        return ""
    if license in _SPDX_BY_NAME:
        return _SPDX_BY_NAME[license]
    if _CREATIVE_COMMONS.fullmatch(license):
        return license.upper()
    # Licenses without an SPDX identifier: of Llama, of Gemma, of the OpenRAIL family.
    own = name if license == "other" else license
    text = re.sub(r"[^A-Za-z0-9.-]+", "-", own).strip("-")
    return f"LicenseRef-{text}" if text else ""
