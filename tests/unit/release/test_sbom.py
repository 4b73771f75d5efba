"""The bill of materials of a release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from etbundle.release import python_packages
from example_release import Release, whole
from license_expression import get_spdx_licensing
from packageurl import PackageURL


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return whole(tmp_path)


def bill(release: Release, **status: str) -> dict[str, Any]:
    assert release.make(**status) == 0
    return release.json("sbom.cdx.json")


def every(value: object) -> Iterator[dict[str, Any]]:
    """All JSON objects inside of one."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from every(one)


def components(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Those of the release, with their parts, by reference."""
    top = [made["metadata"]["component"], *made["components"]]
    return {c["bom-ref"]: c for one in top for c in [one, *one.get("components", [])]}


def needs(made: dict[str, Any]) -> dict[str, list[str]]:
    return {one["ref"]: one.get("dependsOn", []) for one in made["dependencies"]}


def below(made: dict[str, Any], ref: str) -> set[str]:
    """All that a component needs, directly or not."""
    result: set[str] = set()
    waiting = [ref]
    while waiting:
        for one in needs(made)[waiting.pop()]:
            if one not in result:
                result.add(one)
                waiting.append(one)
    return result


STAMP = {
    "stable_status": "STABLE_GIT_COMMIT 4f1c0de\n",
    "volatile_status": "BUILD_TIMESTAMP 1700000000\n",
}


@pytest.mark.parametrize("status", [{}, STAMP])
def test_it_is_cyclonedx(release: Release, status: dict[str, str]) -> None:
    release.say("version", "1.4.0")
    made = bill(release, **status)
    text = (release.folder / "sbom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    # The validator does find mistakes.
    made["components"][0]["type"] = "weights"
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(made)) is not None


def test_references_are_unique_and_lead_somewhere(release: Release) -> None:
    made = bill(release)
    refs = [one["bom-ref"] for one in every(made) if "bom-ref" in one]
    assert len(refs) == len(set(refs))
    there = set(components(made))
    assert set(needs(made)) == there
    for ref, expected in needs(made).items():
        assert set(expected) <= there, ref
    root = made["metadata"]["component"]["bom-ref"]
    # A package is there as its parts.
    assert below(made, root) | {root} >= {r for r in there if not r.startswith("pkg:")}


def test_urls_and_licenses_are_well_formed(release: Release) -> None:
    made = bill(release)
    purls = [one["purl"] for one in every(made) if "purl" in one]
    assert "pkg:pypi/torch@2.13.0%2Bcpu" in purls
    for purl in purls:
        assert PackageURL.from_string(purl).to_string() == purl
    for one in every(made):
        if "expression" in one:
            unknown = get_spdx_licensing().unknown_license_keys(one["expression"])
            assert all(name.startswith("LicenseRef-") for name in unknown), unknown


def test_libraries_are_parts_of_packages(release: Release) -> None:
    result = components(bill(release))
    runtime = result["pkg:pypi/executorch@1.5.1"]
    assert (runtime["name"], runtime["version"]) == ("executorch", "1.5.1")
    assert runtime["licenses"] == [{"expression": "BSD-3-Clause"}]
    (library,) = runtime["components"]
    manifest = release.json("manifest.json")
    inside = manifest["files"]["chat-linux_x86_64.tar.zst"]["contents"]
    assert library["name"] == "lib/libexecutorch.so"
    assert library["hashes"] == [
        {"alg": "SHA-256", "content": inside["chat/lib/libexecutorch.so"]["sha256"]}
    ]
    oniguruma = result["pkg:github/kkos/oniguruma@v6.9.10"]
    assert (oniguruma["name"], oniguruma["version"]) == ("oniguruma", "v6.9.10")


def test_a_runtime_of_unknown_origin(tmp_path: Path) -> None:
    made = Release(tmp_path)
    made.app("own", "linux_arm64", [], file="own-linux_arm64.tar.zst", purl="")
    runtime = components(bill(made))["runtime://rt:linux_arm64"]
    assert (runtime["name"], runtime["version"]) == ("//rt:linux_arm64", "1.5.1")
    assert "purl" not in runtime and "licenses" not in runtime


def test_weights_are_files_with_hashes(release: Release) -> None:
    made = bill(release)
    result = components(made)
    listed = release.json("manifest.json")["files"]["data/foundation.ptd"]
    weights = result["data://m:foundation"]
    assert weights["name"] == "foundation.ptd"
    assert weights["hashes"] == [{"alg": "SHA-256", "content": listed["sha256"]}]
    program = result["program://m:base"]
    assert program["type"] == "machine-learning-model"
    (source,) = program["pedigree"]["ancestors"]
    assert source["name"] == "//m:model.gguf"
    assert needs(made)["program://m:base"] == ["data://m:foundation"]


def test_weights_of_the_hub_have_its_license(release: Release) -> None:
    result = components(bill(release))
    (source,) = result["program://m:task"]["pedigree"]["ancestors"]
    assert source["licenses"] == [{"expression": "LicenseRef-llama3.2 AND MIT"}]
    url = PackageURL.from_string(source["purl"])
    assert (url.type, url.namespace, url.name) == ("huggingface", "org", "Model-1B")
    (own,) = result["program://m:base"]["pedigree"]["ancestors"]
    assert not own.keys() & {"licenses", "purl"}


def test_what_an_apk_holds(release: Release) -> None:
    made = bill(release)
    expected = needs(made)["package://x:chat_apk"]
    assert "program://m:base" in expected and "data://m:foundation" in expected
    assert "program://m:task" not in expected
    assert [ref for ref in expected if ref.startswith("library:android_arm64/lib/")]
    assert "pkg:github/kkos/oniguruma@v6.9.10" in expected
    # Its app's own binary is not in it, nor anywhere else.
    assert "app://x:phone" not in components(made)


@pytest.mark.parametrize(
    ("kind", "path", "linked"),
    [
        ("aar", "jni/arm64-v8a/libexecutorch_app.so", True),
        ("swift_package", "E.xcframework/ios-arm64/ExecutorchApp.framework/ExecutorchApp", True),
        # An app with a main() of its own brings no interface.
        ("aar", "jni/arm64-v8a/libexecutorch.so", False),
    ],
)
def test_what_the_interface_is_linked_with(
    tmp_path: Path, kind: str, path: str, linked: bool
) -> None:
    made = Release(tmp_path)
    phone = made.app("phone", "android_arm64", [made.program("base", "foundation")], ["foundation"])
    kept = ("lib/libexecutorch.so", "programs/base.pte", "data/foundation.ptd")
    files = {path: made.file("interface"), **{f"assets/{p}": phone / p for p in kept}}
    made.package("library", kind, files, ["phone"])
    expected = needs(bill(made))["package://x:library"]
    assert ("pkg:github/kkos/oniguruma@v6.9.10" in expected) == linked


def test_what_made_it(release: Release) -> None:
    result = {one["name"]: one for one in bill(release)["metadata"]["tools"]["components"]}
    assert set(result) == {"cpython", "jinja2", "rules_executorch", "torch"}
    assert result["torch"]["licenses"] == [{"expression": "BSD-3-Clause AND MIT"}]
    assert result["jinja2"]["licenses"] == [{"license": {"name": "BSD License"}}]


def test_packages_of_backends(release: Release) -> None:
    metadata = release.file(
        "tosa.dist-info/METADATA", "Name: tosa_tools\nVersion: 1\nLicense: MIT\n"
    )
    release.say("backend_packages", "//b:tosa", metadata)
    result = {one["name"]: one for one in bill(release)["metadata"]["tools"]["components"]}
    package = result["tosa-tools"]
    assert package["purl"] == "pkg:pypi/tosa-tools@1"
    assert package["licenses"] == [{"license": {"id": "MIT"}}]
    assert package["properties"] == [{"name": "rules_executorch:layer", "value": "//b:tosa"}]


def test_the_serial_number_follows_from_the_contents(release: Release, tmp_path: Path) -> None:
    one = bill(release)
    assert bill(whole(tmp_path / "again"))["serialNumber"] == one["serialNumber"]
    release.arguments["program"][0][3] = json.dumps({"options": {"group_size": "64"}})
    assert bill(release)["serialNumber"] != one["serialNumber"]


def test_times_and_revisions_of_stamped_builds_only(release: Release) -> None:
    plain = bill(release)
    assert "timestamp" not in plain["metadata"]
    assert "pedigree" not in plain["metadata"]["component"]
    stamped = bill(release, **STAMP)
    assert stamped["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert stamped["metadata"]["component"]["pedigree"] == {"commits": [{"uid": "4f1c0de"}]}


@pytest.mark.parametrize(
    ("fields", "expression", "names"),
    [
        ("License-Expression: MIT\nLicense: whatever\n", "MIT", ()),
        ("License: Apache 2.0\n", "", ("Apache 2.0",)),
        ("License: " + "all of it " * 30 + "\nClassifier: License :: OSI Approved :: BSD License\n",
         "", ("BSD License",)),
        ("License: Copyright (c) 2001\n  Redistribution …\n", "", ("Copyright (c) 2001",)),
        ("Classifier: License :: OSI Approved\n", "", ()),
        ("", "", ()),
    ],
)  # fmt: skip
def test_licenses_of_metadata(
    tmp_path: Path, fields: str, expression: str, names: tuple[str, ...]
) -> None:
    path = tmp_path / "METADATA"
    path.write_text("Name: Some.Package_x\nVersion: 1.0\n" + fields)
    (package,) = python_packages.read([path])
    assert package.name == "some-package-x"
    assert (package.expression, package.licenses) == (expression, names)
