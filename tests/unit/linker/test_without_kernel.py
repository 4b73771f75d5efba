"""Operators that nothing registers keep a program from being linked, unless an app has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from etbuild.errors import BuildError
from etlink.__main__ import main
from etlink.without_kernel import check

FUSED = "aten::_transformer_encoder_layer_fwd.out"


def call(operator: str, modules: tuple[str, ...] = (), foreign: bool = False) -> dict[str, Any]:
    return {
        "method": "forward",
        "operator": operator,
        "modules": list(modules),
        "lines": ["net.py:12"],
        "foreign": foreign,
    }


def lowered(folder: Path, *calls: dict[str, Any]) -> Path:
    (folder / "lowering.json").write_text(json.dumps({"without_kernel": calls}))
    return folder


def test_they_are_named_with_their_modules(tmp_path: Path) -> None:
    modules = tuple(f"layers.{n}" for n in range(10))
    folder = lowered(
        tmp_path, call("aten::bincount.out", modules), call("own::f.out", foreign=True)
    )
    with pytest.raises(BuildError) as caught:
        check("//m:p", folder, [])
    assert str(caught.value).startswith(
        "//m:p: the program cannot be loaded: no library of ExecuTorch has a kernel for "
        'aten::bincount.out (method "forward", in layers.0, layers.1, layers.2, '
        "layers.3, layers.4, layers.5, layers.6, layers.7 and 2 more, net.py:12)."
    )
    assert "name it in app_operators" in str(caught.value)


def test_fused_attention_has_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"mha\.set_fastpath_enabled\(False\)"):
        check("//m:p", lowered(tmp_path, call(FUSED)), [])


def test_what_the_app_has(tmp_path: Path) -> None:
    """Operators that are named, by a pattern as well, and those of namespaces of its own."""
    folder = lowered(tmp_path, call("aten::bincount.out"), call("own::f.out", foreign=True))
    check("//m:p", folder, ["aten::bincount.out"])
    check("//m:p", folder, ["aten::bin*"])
    with pytest.raises(
        BuildError, match=r"app_operators: got .aten::add.out., expected .*bincount"
    ):
        check("//m:p", folder, ["aten::bincount.out", "aten::add.out"])


def test_the_linker_asks_before_it_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "p.pte"
    flags = [f"--lowered={tmp_path}", f"--program={program}", "--label=//m:p", "--require_kernels"]
    lowered(tmp_path, call("aten::bincount.out"))
    assert main(flags) == 1
    assert "ERROR: //m:p: the program cannot be loaded" in capsys.readouterr().err
    (tmp_path / "lowering.json").write_text("{}")
    assert main(flags) == 1
    assert "lowering.json" in capsys.readouterr().err
    assert not program.exists()
