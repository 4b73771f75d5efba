"""Components of a CycloneDX bill of materials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License, LicenseExpression
from cyclonedx.spdx import is_supported_id
from etlink.manifest import File
from packageurl import PackageURL

from etbundle.release.python_packages import PythonPackage

_PROPERTY = "rules_executorch:"


def file(ref: str, name: str, of: File, **more: Any) -> Component:
    """A file with its hash."""
    return Component(type=ComponentType.FILE, bom_ref=ref, name=name, hashes=hashes(of), **more)


def hashes(of: File) -> list[HashType]:
    """A file's hash as CycloneDX has it."""
    return [HashType(alg=HashAlgorithm.SHA_256, content=of.sha256)]


def properties(values: Mapping[str, str]) -> list[Property]:
    """Properties in this project's namespace; empty ones are left out."""
    return [Property(name=_PROPERTY + name, value=value) for name, value in values.items() if value]


def package(purl: str, license: str) -> Component:
    """A package that is known by its URL and the expression of its license only."""
    url = PackageURL.from_string(purl)
    return Component(
        bom_ref=purl,
        name=url.name,
        version=url.version,
        licenses=licenses(license),
        purl=url,
    )


def python_package(ref: str, package: PythonPackage, **more: Any) -> Component:
    """A Python package."""
    return Component(
        bom_ref=ref,
        name=package.name,
        version=package.version,
        licenses=licenses(package.expression, package.licenses),
        purl=PackageURL("pypi", name=package.name, version=package.version),
        **more,
    )


def licenses(expression: str, names: Sequence[str] = ()) -> list[License]:
    """Licenses: an SPDX expression, else the names that a package gives, as it gives them."""
    if expression:
        return [LicenseExpression(expression)]
    factory = LicenseFactory()
    if len(names) == 1:
        return [factory.make_from_string(names[0])]
    # CycloneDX allows no expression beside other licenses.
    return [
        factory.make_with_id(name) if is_supported_id(name) else factory.make_with_name(name)
        for name in names
    ]
