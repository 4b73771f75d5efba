"""Reports as HTML pages without references to anything outside of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from etlink.amounts import human_bytes, human_flops, human_percent, human_tensor

from etcli.report import treemap
from etcli.report.findings import LOW_SQNR_DB, findings
from etcli.report.modules import by_module
from etcli.report.treemap import Node

_FOLDER = Path(__file__).parent


def of_program(report: Mapping[str, Any]) -> str:
    """The page of a program.

    Args:
      report: as `program.describe` returns it.

    Raises:
      ValueError: a member is missing.
    """
    nodes = program_nodes(report)
    return render(
        "program.html.jinja",
        report=report,
        findings=findings(report),
        map=treemap.layout(nodes),
        files=len(nodes),
        low_sqnr=LOW_SQNR_DB,
        stages=_timeline(report["lowering"]["stages"]),
        lowest_sqnr=lowest_sqnr(report["accuracy"]),
    )


def render(template: str, **values: Any) -> str:
    """A page of a template.

    Raises:
      ValueError: the template uses a value that is missing.
    """
    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FileSystemLoader(_FOLDER, encoding="utf-8"),
    )
    environment.filters["bytes"] = human_bytes
    environment.filters["figures"] = _figures
    environment.filters["flops"] = human_flops
    environment.filters["percent"] = human_percent
    style = (_FOLDER / "style.css").read_text(encoding="utf-8")
    script = (_FOLDER / "script.js").read_text(encoding="utf-8")
    try:
        page = environment.get_template(template)
        return page.render(style=style, script=script, **values)
    except jinja2.TemplateError as error:
        raise ValueError(error) from error


def program_nodes(report: Mapping[str, Any]) -> list[Node]:
    """The files that a program loads, with groups and data inside, for a treemap."""
    return [_file_node(file) for file in report["contents"]]


def _file_node(file: Mapping[str, Any]) -> Node:
    kind = "shared" if file["kind"] == "shared" else ""
    groups = tuple(
        Node(
            group["name"],
            group["bytes"],
            kind or group["kind"],
            children=by_module([_datum_node(d, kind or group["kind"]) for d in group["data"]]),
        )
        for group in file["groups"]
    )
    words = "shared, " if kind else ""
    return Node(file["file"], file["bytes"], kind, f"{words}{file['label']}", groups)


def _datum_node(datum: Mapping[str, Any], kind: str) -> Node:
    detail = human_tensor(datum["dtype"], datum["shape"])
    return Node(datum["name"], datum["bytes"], kind, detail)


def _timeline(stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Stages with begin and length in per cent of the whole lowering."""
    whole = sum(s["seconds"] for s in stages)
    bars, begin = [], 0.0
    for stage in stages:
        part = 100 * stage["seconds"] / whole if whole else 0.0
        bars.append({**stage, "left": round(begin, 2), "width": round(part, 2)})
        begin += part
    return {"seconds": whole, "stages": bars}


def _figures(estimate: Mapping[str, Any]) -> dict[str, str]:
    """The figures of an estimate for people, by their titles."""
    found = {}
    if "seconds" in estimate:
        found["time"] = f"{1000 * estimate['seconds']:.3f} ms"
    for name, value in estimate.items():
        title = name.replace("_", " ").removesuffix(" bytes")
        if name.endswith("_read_write_bytes"):
            rate = value / estimate["seconds"] if estimate.get("seconds") else 0
            found[title.replace("read write", "traffic")] = (
                f"{human_bytes(value)}, {human_bytes(round(rate))}/s"
            )
        elif name.endswith("_bytes"):
            found[title] = human_bytes(value)
        elif name == "clock_hz":
            found["clock"] = f"{value / 1e6:g} MHz"
        elif name not in ("seconds", "delegates"):
            found[title] = value if isinstance(value, str) else f"{value:,.0f}"
    return dict(sorted(found.items()))


def lowest_sqnr(accuracy: Mapping[str, Any]) -> float | None:
    """The worst ratio of all outputs, in dB."""
    outputs = (o for method in accuracy.values() for o in method.get("outputs", ()))
    return min((o["sqnr_db"] for o in outputs if o["sqnr_db"] is not None), default=None)
