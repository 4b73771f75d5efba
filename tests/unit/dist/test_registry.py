"""The registry's templates, and the versions that pages name, agree with the module."""

from __future__ import annotations

import json
import re
from pathlib import Path

import archive
import yaml

_MODULE = Path("MODULE.bazel").read_text()
_NAME, _VERSION = archive.module_line(_MODULE, "MODULE.bazel")


def attribute(name: str) -> str:
    return re.search(rf'^\s*{name} = \[?"(?:>=)?([^"]+)"', _MODULE, re.MULTILINE)[1]


def template(name: str) -> dict[str, object]:
    return json.loads(Path(".bcr", name).read_text())


def test_the_source_is_the_archive() -> None:
    source = {
        key: text.replace("{VERSION}", _VERSION)
        for key, text in template("source.template.json").items()
    }
    assert source["strip_prefix"] == f"{_NAME}-{_VERSION}"
    assert source["url"].endswith(f"/{{TAG}}/{_NAME}-{_VERSION}.tar.gz")
    assert source["integrity"] == ""


def test_the_metadata() -> None:
    """The keys that the registry wants, and no version: its own tool adds those."""
    metadata = template("metadata.template.json")
    assert set(metadata) == {"homepage", "maintainers", "repository", "versions", "yanked_versions"}
    assert metadata["maintainers"]
    assert (metadata["versions"], metadata["yanked_versions"]) == ([], {})


def test_the_presubmit_builds_an_example() -> None:
    presubmit = yaml.safe_load(Path(".bcr/presubmit.yml").read_text())["bcr_test_module"]
    assert presubmit["module_path"] == "examples/hermetic"
    (task,) = presubmit["tasks"].values()
    assert task["test_targets"] == ["//..."]
    matrix = presubmit["matrix"]
    assert [task["bazel"], task["platform"]] == ["${{ bazel }}", "${{ platform }}"]
    assert matrix["bazel"] == ["7.x", "8.x", "9.x"]
    assert len(matrix["platform"]) == 2
    assert in_table("Bazel").split(".")[0] + ".x" in matrix["bazel"]


def test_the_archive_has_what_the_module_registers() -> None:
    """Else no target of an unpacked release can be built."""
    ignored = re.findall(r"^(\S+) export-ignore$", Path(".gitattributes").read_text(), re.MULTILINE)
    calls = re.findall(r"^register_\w+\((.*?)^\)", _MODULE, re.MULTILINE | re.DOTALL)
    folders = [f for call in calls for f in re.findall(r'"//([^/:"]+)', call)]
    assert "tests" in ignored
    assert folders
    assert not set(folders) & set(ignored)


def in_table(column: str) -> str:
    """The newest row of the table of what works together."""
    lines = Path("docs/support/versions.md").read_text().splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| rules_executorch |"))
    names, row = ([c.strip() for c in lines[i].strip("|").split("|")] for i in (head, head + 2))
    return dict(zip(names, row, strict=True))[column]


def test_the_table_of_versions() -> None:
    assert in_table("rules_executorch") == _VERSION
    assert in_table("ExecuTorch (exporter)") == attribute("executorch_version")
    assert in_table("PyTorch") == attribute("torch_version") + " (CPU)"
    assert in_table("Bazel") == Path(".bazelversion").read_text().strip()
    minimum = attribute("bazel_compatibility").split(".")
    assert in_table("Bazel").split(".")[:2] >= minimum[:2]
