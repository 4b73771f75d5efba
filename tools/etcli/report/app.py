"""EtReport: the contents of an app, as JSON and as one self-contained page.

Contract: `etcli.report.app --manifest APP.json --report LABEL REPORT.json …
--device_file BACKEND FILE … --json OUT --html OUT`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etlink import manifest as manifests
from etlink.container import REBUILD, write_text
from etlink.json_file import fields_of, read_object, write_json
from etlink.manifest import Manifest

from etcli.report import page, treemap
from etcli.report.findings import LOW_SQNR_DB, findings
from etcli.report.modules import by_module
from etcli.report.treemap import Node


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Writes the report."""
    parser = ToolParser(prog="etcli.report.app", description=__doc__)
    for name in ("manifest", "json", "html"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--report", nargs=2, action="append", default=[])
    parser.add_argument("--device_file", nargs=2, action="append", default=[])
    options = parser.parse_args(arguments)
    manifest = manifests.read(options.manifest)
    reports = {
        label: read_object(Path(file), "is not the report of a program", REBUILD)
        for label, file in options.report
    }
    with fields_of(f"{options.manifest}, or a report of its programs,", REBUILD):
        report = describe(manifest, reports, options.device_file)
        html = of_app(report)
    write_json(options.json, report)
    write_text(options.html, html)


def describe(
    manifest: Manifest,
    reports: Mapping[str, Any],
    device_files: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The report as one JSON object.

    Args:
      manifest: of the app, as EtApp writes it.
      reports: of its programs, by label.
      device_files: backend and file: what backends open on a device and the app may lack.
    """
    sizes = {path: file.size for path, file in manifest.files.items()}
    kinds = {path: _kind(path, manifest) for path in sizes}
    return {
        "label": manifest.label,
        "platform": ", ".join(manifest.platforms),
        "executorch": manifest.executorch,
        "bytes": {
            kind: sum(size for path, size in sizes.items() if kinds[path] == kind)
            for kind in sorted(set(kinds.values()))
        },
        "files": [
            {"path": path, "kind": kinds[path], "bytes": size}
            for path, size in sorted(sizes.items(), key=lambda i: (-i[1], i[0]))
        ],
        "programs": [
            {
                "name": name,
                "file": program.file,
                "data": {manifest.files[path].label: path for path in program.data},
                "backends": sorted({b for m in program.methods.values() for b in m.backends}),
                "operators": sorted({o for m in program.methods.values() for o in m.operators}),
                "report": reports[program.label],
            }
            for name, program in manifest.programs.items()
        ],
        "device_files": [
            {"backend": backend, "file": file}
            for backend, file in device_files
            if file not in {Path(path).name for path in sizes}
        ],
    }


def _kind(path: str, manifest: Manifest) -> str:
    if path == manifest.binary:
        return "binary"
    if path in manifest.libraries:
        return "library"
    folder = path.split("/", 1)[0]
    kinds = {"programs": "program", "data": "data", "assets": "asset", "licenses": "license"}
    return kinds.get(folder, "other")


def of_app(report: Mapping[str, Any]) -> str:
    """The page of an app.

    Raises:
      ValueError: a member is missing.
    """
    programs = report["programs"]
    warnings = [
        {"text": f"{program['name']}: {finding['text']}", "section": f"program-{number}"}
        for number, program in enumerate(programs)
        for finding in findings(program["report"])
    ]
    return page.render(
        "app.html.jinja",
        report=report,
        findings=warnings,
        map=treemap.layout(_nodes(report)),
        low_sqnr=LOW_SQNR_DB,
        whole=sum(report["bytes"].values()),
        rows=[_row(program) for program in programs],
    )


def _nodes(report: Mapping[str, Any]) -> list[Node]:
    """The app's files for a treemap, with the data inside of them where it is known."""
    inside: dict[str, list[Node]] = {}
    for program in report["programs"]:
        paths = {**program["data"], program["report"]["label"]: program["file"]}
        for node, file in zip(
            page.program_nodes(program["report"]), program["report"]["contents"], strict=True
        ):
            own_data = file["kind"] == "own" and file["file"].endswith(".ptd")
            label = file["label"]
            path = program["data"].get(label) if own_data else paths.get(label)
            if path:
                inside.setdefault(path, []).extend(node.children)
    nodes = []
    for file in report["files"]:
        kind = {"asset": "other", "license": "other", "data": "shared"}.get(
            file["kind"], file["kind"]
        )
        children = _united(inside.get(file["path"], []))
        rest = file["bytes"] - sum(n.size for n in children)
        if children and rest > 0:
            children.append(
                Node("tables, and data that no program of the app loads", rest, "tables")
            )
        if rest < 0:
            children = []
        nodes.append(Node(file["path"], file["bytes"], kind, children=tuple(children)))
    return nodes


def _united(nodes: Sequence[Node]) -> list[Node]:
    """Groups of one name as one, with each datum once: programs share what is in a data file."""
    groups: dict[str, dict[str, Node]] = {}
    kinds: dict[str, str] = {}
    for node in nodes:
        kinds[node.name] = node.kind
        data = (leaf for child in node.children for leaf in child.children or (child,))
        groups.setdefault(node.name, {}).update({leaf.name: leaf for leaf in data})
    return [
        Node(
            name,
            sum(n.size for n in data.values()),
            kinds[name],
            children=by_module(list(data.values())),
        )
        for name, data in groups.items()
    ]


def _row(program: Mapping[str, Any]) -> dict[str, Any]:
    """A program's row in the table of programs."""
    report = program["report"]
    methods = report["delegation"].values()
    flops = sum(m["flops"] for m in methods)
    delegated = sum(m["delegated"]["flops"] for m in methods)
    return {
        "name": program["name"],
        "label": report["label"],
        "recipe": report["recipe"]["label"],
        "own": report["bytes"]["own"],
        "shared": report["bytes"]["shared"],
        "delegated": 100 * delegated / flops if flops else None,
        "sqnr": page.lowest_sqnr(report["accuracy"]),
        "operators": len(program["operators"]),
    }


if __name__ == "__main__":
    sys.exit(main())
