"""The table of operators is what upstream's parser makes of it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from importlib import resources
from typing import Any

import executorch.exir.dialects.edge as edge
import pytest
from etfast.operator_table import _KNOWN, Parser
from ruamel.yaml import YAML

TABLE = resources.read_text(edge, "edge.yaml", encoding="utf-8")


class NeverAsked:
    def load(self, text: str) -> Any:
        raise AssertionError("asked")


def test_equal() -> None:
    upstream = YAML(typ="safe").load(TABLE)
    table = Parser(NeverAsked()).load(TABLE)
    assert repr(table) == repr(upstream) and len(table) > 100


def test_knows_the_locked_version() -> None:
    """An update of ExecuTorch with another table fails here: compare it, and change the digest."""
    assert hashlib.sha256(TABLE.encode()).hexdigest().startswith(_KNOWN)


def test_another_table() -> None:
    """Upstream's table counts where versions of YAML differ."""
    assert Parser(YAML(typ="safe")).load("[yes, 010]") == ["yes", 10]
    with pytest.raises(AssertionError, match="asked"):
        Parser(NeverAsked()).load(TABLE + "\n")


@pytest.mark.release
@pytest.mark.parametrize("lowering", ["fast", "stock"])
def test_import(lowering: str) -> None:
    """Upstream's parser is back, and it was not asked on the fast path."""
    code = f"""if True:
        import ruamel.yaml
        asked, load = [], ruamel.yaml.YAML.load
        ruamel.yaml.YAML.load = lambda self, text: asked.append(1) or load(self, text)
        upstream = ruamel.yaml.YAML
        from etfast import path
        path.import_executorch("{lowering}")
        from executorch.exir.dialects.edge import _ops
        assert _ops.YAML is upstream is ruamel.yaml.YAML
        assert "aten::add.Tensor" in _ops._edge_dialect_info
        print(len(asked))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0" if lowering == "fast" else "1"]
