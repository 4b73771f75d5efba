"""executorch_app.h: a C program with sessions in two threads; see app_client.c.

Each thread takes 400 turns, in `//tests:release` 10,000; others: `--test_env=TURNS=20000`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.runner.counting import Counting, Stateful, write, write_tokenizer

CLIENT = Path(os.environ.get("CLIENT", "tests/integration/runner/app_client")).absolute()
TURNS = os.environ.get("TURNS")
# ThreadSanitizer keeps notes.
MOST_GROWTH_KIB = int(os.environ.get("MOST_GROWTH_KIB", "1024"))
TASK = Path("tests/integration/runner/task/assets").absolute()


@pytest.mark.parametrize(
    ("net", "metadata"),
    [(Counting(), {}), (Stateful(), {"use_recurrent_state": True})],
    ids=["cache", "state"],
)
@pytest.mark.parametrize("turns", ["400", pytest.param("10000", marks=pytest.mark.release)])
def test_a_c_program_runs_methods_and_chats_in_two_threads(
    net: Counting, metadata: dict[str, object], turns: str, tmp_path: Path
) -> None:
    program = write(tmp_path / "counting.pte", net, {"forward": None}, **metadata)
    tokenizer = write_tokenizer(tmp_path / "tokenizer.json")
    command = [CLIENT, program, tokenizer, TURNS or turns]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    missing, listed, *methods_and_errors, growth = result.stdout.splitlines()
    assert "missing.pte" in missing
    assert listed == f"1: {program}"
    methods = ["forward", "get_eos_ids", "get_max_context_len", "get_max_seq_len", *metadata]
    assert methods_and_errors[: len(methods)] == methods
    (dtype, size, method, no_events, index, no_library, threads, in_use, long, full, rewound) = (
        methods_and_errors[len(methods) :]
    )
    assert in_use == (
        "executorch_app_set_threads: a session of this process is open, expected none: loaded "
        "methods keep the threads. Set the threads before the first session, or close all sessions."
    )
    assert "the position for " in dtype and "is int32 (1), expected int64 (1)" in dtype
    assert no_events.endswith("the session records no events. Open it with records_events.")
    assert "index: got 2, expected less than 2, the programs of the app." in index
    assert "this runner was built without the runtime's library" in no_library
    assert "count: got 0, expected a number from 1 to 1024." in threads
    assert len(long.encode()) < 2048 and long.startswith("ääää") and "ä [...] ä" in long
    assert long.endswith(".pte cannot be opened: File name too long (a program).")
    assert "input_0: size: got 8 bytes, expected those of int64 (1, 3)." in size
    assert 'has no method "walk"; its methods are: forward, ' in method
    assert full.endswith(
        "counting.pte: the message does not fit into the context: got 3 tokens, "
        "expected at most 1. Rewind the chat, or shorten the message."
    )
    assert rewound == (
        "executorch_app_rewind: turns: got 3, expected at most 2, the turns of the chat."
    )
    assert int(growth.split()[2]) <= MOST_GROWTH_KIB, growth


def test_a_base_and_its_task_in_two_threads() -> None:
    """They share packed weights, and each thread switches between them."""
    command = [CLIENT, TASK, "tiny_int4_base", "tiny_int4_assistant", "6"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("\n") >= 2
