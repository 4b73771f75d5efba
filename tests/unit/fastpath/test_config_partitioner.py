"""While a partitioner asks, a program's tables and groups of nodes are made once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from etfast import path
from executorch.backends.xnnpack.partition.config import gemm_configs
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge
from torch.export import ExportedProgram
from torch.export import graph_signature as signatures


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts how often tables of a signature and groups of nodes are made."""
    result: Counter[str] = Counter()
    table, groups = signatures._immutable_dict, gemm_configs.get_source_partitions

    def watched_table(items: Any) -> Any:
        result["tables"] += 1
        return table(items)

    def watched_groups(*args: Any) -> Any:
        result["groups"] += 1
        return groups(*args)

    monkeypatch.setattr(signatures, "_immutable_dict", watched_table)
    monkeypatch.setattr(gemm_configs, "get_source_partitions", watched_groups)
    return result


class Net(torch.nn.Module):
    """Two linear layers, which are decomposed to `addmm`."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


def program() -> ExportedProgram:
    exported = torch.export.export(Net().eval(), (torch.ones(2, 4),), strict=False)
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(exported, compile_config=config).exported_program()


def matched(asked: ExportedProgram) -> list[list[str]]:
    """The names of the nodes that the partitioner puts together."""
    groups = XnnpackPartitioner().get_matched_nodes_from_configs(asked)
    return sorted(sorted(node.name for node in group) for group in groups)


def test_the_same_nodes_with_each_table_made_once(made: Counter[str]) -> None:
    asked = program()
    made.clear()
    upstream = matched(asked)
    assert upstream and made["tables"] > 3 and made["groups"] > 1
    made.clear()
    with path.installed(path.units(["config_partitioner"])) as used:
        assert used.active == ["config_partitioner"]
        assert matched(asked) == upstream
    assert made["tables"] <= 3 and made["groups"] == 1


def test_nothing_is_kept_until_the_next_time(made: Counter[str]) -> None:
    asked = program()
    with path.installed(path.units(["config_partitioner"])):
        matched(asked)
        asked.graph_signature.input_specs.pop(0)
        made.clear()
        assert len(asked.graph_signature.inputs_to_parameters) == 3
        assert len(asked.graph_signature.inputs_to_parameters) == 3
    assert made["tables"] == 2
