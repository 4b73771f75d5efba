"""etllm.chat.program: programs on ExecuTorch's runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from etllm.chat.errors import LlmError
from etllm.chat.program import PteProgram
from etllm.chat.sampler import Sampler
from etllm.chat.session import Answer, Session, answer
from executorch.exir import to_edge
from torch import nn

METADATA = {"get_max_context_len": 16, "get_max_seq_len": 4, "get_eos_ids": [2, 3]}


class Counter(nn.Module):
    """Says the number of tokens that it has seen; the number is its state."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, dtype=torch.long))

    def forward(self, tokens: torch.Tensor, input_pos: torch.Tensor) -> torch.Tensor:
        self.seen.copy_(input_pos + tokens.shape[1])
        return (torch.arange(32) == self.seen).to(torch.float32).view(1, -1)


def write(path: Path, name: str = "forward", metadata: dict | None = None) -> Path:
    """Writes the counter's program."""
    count = torch.export.Dim("count", min=1, max=4)
    inputs = (torch.zeros((1, 2), dtype=torch.long), torch.zeros(1, dtype=torch.long))
    exported = torch.export.export(
        Counter(), inputs, dynamic_shapes={"tokens": {1: count}, "input_pos": {}}
    )
    constants = METADATA if metadata is None else metadata
    edge = to_edge({name: exported}, constant_methods=constants)
    path.write_bytes(edge.to_executorch().buffer)
    return path


@pytest.fixture(scope="module")
def pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The counter's program."""
    return write(tmp_path_factory.mktemp("pte") / "counter.pte")


def test_metadata_come_from_the_program(pte):
    program = PteProgram(pte)
    assert (program.max_context_len, program.max_seq_len) == (16, 4)
    assert program.eos_ids == {2, 3}


def test_a_session_runs_on_it(pte):
    session, record = Session(PteProgram(pte)), Answer()
    # 6 tokens take a call of 4 and one of 2; then each answer is the number of tokens seen.
    assert list(answer(session, [9] * 6, Sampler(), 4, record)) == [6, 7, 8, 9]
    assert record.reason == "length"


def test_a_program_that_is_no_language_model_says_what_it_lacks(tmp_path):
    other = write(tmp_path / "other.pte", name="encode")
    with pytest.raises(
        LlmError, match=r'other\.pte: expected a method "forward".*has: encode, get'
    ):
        PteProgram(other)
    bare = write(tmp_path / "bare.pte", metadata={})
    with pytest.raises(LlmError, match=r'bare\.pte: expected a metadata method "get_max_context'):
        PteProgram(bare)


def test_files_that_cannot_be_loaded_are_named(pte, tmp_path):
    cut = tmp_path / "cut.pte"
    cut.write_bytes(pte.read_bytes()[:100])
    with pytest.raises(LlmError, match=r"cut\.pte: the runtime cannot load it"):
        PteProgram(cut)
    with pytest.raises(LlmError, match=r"absent\.pte: no such file"):
        PteProgram(tmp_path / "absent.pte")
    with pytest.raises(LlmError, match=r"absent\.ptd: no such file"):
        PteProgram(pte, tmp_path / "absent.ptd")


def test_a_call_that_fails_says_where(pte):
    with pytest.raises(LlmError, match="failed on 9 tokens at position 3"):
        PteProgram(pte).run([1] * 9, 3)


def test_methods_of_fixed_sizes_read_a_prompt_in_pieces(tmp_path):
    """Two calls of prefill_4 and one of decode; single tokens go to decode."""
    exported = {
        name: torch.export.export(
            Counter(), (torch.zeros((1, count), dtype=torch.long), torch.zeros(1).long())
        )
        for name, count in (("prefill_4", 4), ("decode", 1))
    }
    path = tmp_path / "methods.pte"
    edge = to_edge(exported, constant_methods=METADATA)
    path.write_bytes(edge.to_executorch().buffer)
    session = Session(PteProgram(path))
    assert list(answer(session, [9] * 9, Sampler(), 2, Answer())) == [9, 10]
    with pytest.raises(LlmError, match=r'expected a method "forward", or "decode" and "prefill"'):
        PteProgram(write(tmp_path / "half.pte", name="prefill"))
