"""The least share that must be delegated, and what an error lists. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from etbuild.errors import BuildError
from etlink import delegated
from etlink.__main__ import main


def left(operator: str, nodes: int, flops: int, reason: str = "unknown") -> dict[str, Any]:
    why = [{"reason": reason, "nodes": nodes, "example": "int64 [1]"}]
    return {"operator": operator, "nodes": nodes, "flops": flops, "why": why}


def method(delegates: list[tuple[int, int]], *stayed: dict[str, Any]) -> dict[str, Any]:
    """A method with delegates of (nodes, flops)."""
    listed = [{"backend": "XnnpackBackend", "nodes": n, "flops": f} for n, f in delegates]
    parts = [*listed, *stayed]
    whole = {unit: sum(part[unit] for part in parts) for unit in ("nodes", "flops")}
    return {**whole, "delegates": listed, "left": list(stayed)}


SIN = left("aten.sin.default", 2, 100, "no partitioner of the recipe takes this operator")
VIEW = left("aten.view_copy.default", 6, 0)
MIXED = method([(3, 800), (1, 100)], SIN, VIEW)


@pytest.mark.parametrize("expected", ["90%", "89.5%", "0%"])
def test_enough_is_delegated(expected: str) -> None:
    delegated.check("//m:p", {"forward": MIXED}, expected)


def test_too_little_lists_what_is_not_delegated() -> None:
    """Each method that has too little, with operators, percentages and reasons."""
    methods = {"prefill": MIXED, "decode": method([(1, 5)])}
    with pytest.raises(BuildError) as caught:
        delegated.check("//m:p", methods, "95%")
    assert str(caught.value) == (
        "//m:p: min_delegated: too little is delegated, expected at least 95%.\n"
        'Method "prefill": got 90.0% of its FLOPs. Not delegated:\n'
        "  aten.sin.default × 2, 10.0%: no partitioner of the recipe takes this operator "
        "(int64 [1])\n"
        "Use operators or a recipe that delegate more, or lower min_delegated."
    )


def test_a_percentage_is_not_rounded_up() -> None:
    short = method([(1, 89_999)], left("aten.sin.default", 1, 10_001))
    with pytest.raises(BuildError, match=r'"forward": got 89.9% of its FLOPs'):
        delegated.check("//m:p", {"forward": short}, "90%")


def test_without_flops_nodes_count() -> None:
    moved = method([(1, 0)], left("aten.view_copy.default", 3, 0))
    delegated.check("//m:p", {"forward": moved}, "25%")
    expected = r"25.0% of its nodes \(it has no FLOPs\)(.|\n)*× 3, 75.0%"
    with pytest.raises(BuildError, match=expected):
        delegated.check("//m:p", {"forward": moved}, "26%")
    delegated.check("//m:p", {"forward": method([])}, "100%")


def test_a_long_list_is_cut() -> None:
    stayed = [left(f"aten.op{n}.default", 1, 100 - n) for n in range(13)]
    expected = r"op9\.(.|\n)*and 3 more operators; --output_groups=report"
    with pytest.raises(BuildError, match=expected):
        delegated.check("//m:p", {"forward": method([], *stayed)}, "1%")


@pytest.mark.parametrize("expected", ["5 MB", "500"])
def test_what_is_not_a_percentage(expected: str) -> None:
    with pytest.raises(
        BuildError, match=f'//m:p: min_delegated: got "{expected}", expected a percentage'
    ):
        delegated.check("//m:p", {"forward": MIXED}, expected)


def test_shares_of_a_report() -> None:
    """None where there is nothing to delegate."""
    result = delegated.describe({"forward": MIXED})["forward"]
    expected = {"nodes": 4, "flops": 900, "nodes_percent": 33.3, "flops_percent": 90.0}
    assert result["delegated"] == expected
    assert [d["flops_percent"] for d in result["delegates"]] == [80.0, 10.0]
    assert [(o["operator"], o["flops_percent"]) for o in result["left"]] == [
        ("aten.sin.default", 10.0),
        ("aten.view_copy.default", 0.0),
    ]
    nothing = delegated.describe({"forward": method([], VIEW)})["forward"]
    assert nothing["delegated"]["flops_percent"] is None


def test_the_linker_checks_before_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lowering.json").write_text(json.dumps({"delegation": {"forward": MIXED}}))
    flags = [f"--lowered={tmp_path}", f"--program={tmp_path / 'p.pte'}", "--label=//m:p"]
    assert main([*flags, "--min_delegated=91%"]) == 1
    assert (
        "ERROR: //m:p: min_delegated: too little is delegated, expected at least 91%"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "p.pte").exists()
    (tmp_path / "lowering.json").write_text("{}")
    assert main([*flags, "--min_delegated=1%"]) == 1
    assert 'does not say what was delegated: it has no "delegation"' in capsys.readouterr().err
