"""etllm.layers: the parts against ExecuTorch's own."""

from __future__ import annotations

import pytest
import torch
from etllm.embedding import in_8_bits
from etllm.layers import Int8Embedding, Norm, causal_mask, quarter_turns
from executorch.examples.models.llama.norm import RMSNorm


def test_a_quarter_turn_of_each_pair():
    row = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert (row @ quarter_turns(4)).tolist() == [-2.0, 1.0, -4.0, 3.0]


def test_the_mask_hides_later_tokens_only():
    columns = torch.arange(5, dtype=torch.float32).view(1, -1)
    mask = causal_mask(torch.tensor([1, 2]), columns)
    assert (mask == 0).tolist() == [[True, True, False, False, False], [True] * 3 + [False] * 2]
    assert torch.exp(mask[0, 2]) == 0
    assert torch.isfinite(mask.to(torch.float16)).all()


def test_the_norm_equals_executorchs():
    theirs = RMSNorm(64, eps=1e-5)
    torch.nn.init.uniform_(theirs.weight)
    for x in (torch.randn(1, 7, 64), torch.randn(1, 64)):
        ours = Norm(theirs)(x)
        assert ours.shape == x.shape
        torch.testing.assert_close(ours, theirs(x))


def test_the_embedding_multiplies_groups_by_their_scales():
    rows = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=torch.int8)
    scales = torch.tensor([[1.0, 0.5], [2.0, 0.25]], dtype=torch.float16)
    table = Int8Embedding(rows, scales)
    assert table(torch.tensor([[1, 0]])).tolist() == [[[10, 12, 1.75, 2], [1, 2, 1.5, 2]]]


def test_the_norm_of_16_bits_has_a_mean_of_32():
    """A square of 300 is too large for float16."""
    norm = Norm(RMSNorm(8, eps=1e-5)).to(torch.float16)
    x = torch.full((1, 2, 8), 300.0, dtype=torch.float16)
    assert torch.equal(norm(x), torch.ones(1, 2, 8, dtype=torch.float16))


def test_the_embedding_has_the_type_of_the_model():
    table = Int8Embedding(torch.ones(2, 4, dtype=torch.int8), torch.ones(2, 1).half())
    table.dtype = torch.bfloat16
    assert table(torch.tensor([[1]])).dtype == torch.bfloat16


@pytest.mark.parametrize("group", [1, 2, 8, 32])
@pytest.mark.parametrize("size", [1.0, 0.02, 1e-3, 1e-4])
def test_8_bits_of_small_numbers(group: int, size: float) -> None:
    """Each is within half a step of its group's scale, which is rounded to 16 bits."""
    torch.manual_seed(0)
    table = torch.randn(64, 32) * size
    table[0] = 0.0
    numbers, scales = in_8_bits(table, group)
    steps = scales.float().repeat_interleave(group, 1)
    error = (numbers * steps - table).abs()
    # A scale below the normal numbers of 16 bits is a multiple of 2 ** -24.
    rounding = 127 * torch.maximum(steps * 2**-11, torch.tensor(2.0**-25))
    assert (error <= steps / 2 + rounding).all()
    assert not error[0].any()
