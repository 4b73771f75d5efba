"""Processes that end without an answer, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from etbuild.errors import BuildError
from etlink import process

# A module, and the end of the sentence about it. The text of the first is Vulkan's.
_ENDS = {
    "uncaught": (
        """
import os, sys
print("starting", file=sys.stderr)
print("E 00:00:00.1 executorch:x.cpp:9] uncaught exception: Exception raised from get_op_fn at "
      "OperatorRegistry.cpp:20: (it != table_.end()) is false! Could not find operator with name "
      "aten.unfold_copy.default", file=sys.stderr)
print("Aborted", file=sys.stderr)
os.abort()
""",
        "crashed with SIGABRT: Could not find operator with name aten.unfold_copy.default",
    ),
    "silent crash": ("import os; os.abort()", "crashed with SIGABRT"),
    "text of something else": (
        "import os, sys; print('a is false! b', file=sys.stderr, flush=True); os.abort()",
        "crashed with SIGABRT",
    ),
    "failure": ("raise SystemExit('no memory')", "failed: no memory"),
    "no answer": ("", "ended silently"),
}


@pytest.mark.parametrize("case", _ENDS)
def test_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    source, expected = _ENDS[case]
    (tmp_path / "ending.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(BuildError) as caught:
        process.ask("ending", {}, tmp_path, "net.pte")
    assert caught.value.what == f"net.pte: ExecuTorch's runtime {expected}."
