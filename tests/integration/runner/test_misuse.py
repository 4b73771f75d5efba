"""executorch_app.h: each function in each wrong way returns a code and a sentence; see misuse.cc.

The same with sanitizers: `misuse_address_test` and `misuse_thread_test`, in `//tests:release`.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.integration.runner.counting import Counting, write, write_tokenizer
from tests.integration.runner.misuse_rows import Table, functions_of

MISUSE = Path(os.environ["MISUSE"]).absolute()


@pytest.mark.parametrize("mode", ["rows", "listener", "closed", "app_closed", "threads", "memory"])
def test_misuse(mode: str, tmp_path: Path) -> None:
    program = write(tmp_path / "counting.pte", Counting(), {"forward": None})
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    result = subprocess.run(
        [MISUSE, program, tokenizer, mode],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        encoding="utf-8",
        errors="replace",
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-6000:]
    calls = re.search(r"^(\d+) calls, 0 wrong$", result.stdout, re.MULTILINE)
    assert calls and int(calls[1]) >= 30, result.stdout


def test_a_function_that_the_table_does_not_know_is_an_error() -> None:
    known = "size_t executorch_app_turns(const executorch_app_chat* chat);\n"
    assert [f.name for f in functions_of(known)] == ["executorch_app_turns"]
    for unknown, words in (
        ("executorch_app_code executorch_app_fly(executorch_app_chat* chat, wings w);", "wings"),
        ("float executorch_app_fly(size_t wings);", "wings"),
        ("struct executorch_app_wings *\n(executorch_app_fly(void));", "cannot read"),
    ):
        with pytest.raises((AssertionError, KeyError), match=words):
            Table(known + unknown).text()
