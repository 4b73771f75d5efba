"""etllm.gguf_file: values, tensors and errors."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from etbuild import BuildError
from etllm.entry import build
from etllm.gguf_file import GgufFile

Q4_1, Q8_0 = gguf.GGMLQuantizationType.Q4_1, gguf.GGMLQuantizationType.Q8_0


def test_values_have_the_types_that_the_file_gives_them(tiny, tmp_path):
    file = GgufFile(tiny.write(tmp_path / "a.gguf"))
    assert file.integer("llama.block_count") == 3
    assert file.real("llama.rope.freq_base") == 5000.0
    assert file.value("general.architecture") == "llama"
    assert file.integer("llama.absent", 4) == 4


def test_long_arrays_are_the_librarys(tmp_path):
    """They are walked over at first, and there when they are asked for."""
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", [f"<{n * 'é'}>" for n in range(400)])
    writer.add_array("tokenizer.ggml.scores", [n / 4 for n in range(300)])
    writer.add_array("few", ["a", "b"])
    writer.add_string("after", "them")
    writer.add_tensor("last", np.arange(32, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = GgufFile(path)
    for key, field in gguf.GGUFReader(path).fields.items():
        assert file.value(key) == field.contents(), key
    assert file.value("after") == "them"
    assert file.tensor("last", (32,))[31] == 31


@pytest.mark.parametrize("key", ["llama.absent", "general.architecture", "llama.rope.freq_base"])
def test_a_value_that_is_no_whole_number_is_an_error(tiny, tmp_path, key):
    path = tiny.write(tmp_path / "a.gguf")
    with pytest.raises(
        BuildError, match=f"{path}.*{re.escape(key)}.*got .*, expected a whole number"
    ):
        GgufFile(path).integer(key)


def test_quantized_tensors_come_out_as_numbers(tiny, tmp_path):
    values = tiny.tensors["blk.1.attn_q.weight"]
    tiny.types["blk.1.attn_q.weight"] = Q4_1
    tensor = GgufFile(tiny.write(tmp_path / "a.gguf")).tensor("blk.1.attn_q.weight", (64, 64))
    assert tensor.dtype == torch.float32
    np.testing.assert_allclose(tensor.numpy(), values, atol=0.1)


def test_eight_bit_storage_is_taken_as_it_is(tiny, tmp_path):
    tiny.types["token_embd.weight"] = Q8_0
    file = GgufFile(tiny.write(tmp_path / "a.gguf"))
    rows, scales = file.q8("token_embd.weight", (40, 64))
    assert (rows.dtype, scales.dtype, scales.shape) == (torch.int8, torch.float16, (40, 2))
    exact = rows.float().view(40, 2, 32) * scales.float().unsqueeze(-1)
    assert torch.equal(exact.view(40, 64), file.tensor("token_embd.weight", (40, 64)))


def test_a_truncated_file_says_how_many_bytes_it_needs(tiny, tmp_path):
    path = tiny.write(tmp_path / "a.gguf")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1000])
    with pytest.raises(BuildError) as error:
        GgufFile(path)
    found, needed = len(whole) - 1000, int(re.search(r"need (\d+)", str(error.value))[1])
    assert str(path) in str(error.value)
    assert f"found {found}" in str(error.value)
    assert found < needed <= len(whole)


def test_a_file_cut_in_its_header_is_an_error(tiny, tmp_path):
    path = tiny.write(tmp_path / "a.gguf")
    for size in (5, 20, 100, 500):
        cut = tmp_path / f"cut{size}.gguf"
        cut.write_bytes(path.read_bytes()[:size])
        with pytest.raises(BuildError, match=f"{cut}: expected a complete GGUF file; found {size}"):
            GgufFile(cut)


def test_another_file_is_an_error(tmp_path):
    path = tmp_path / "a.gguf"
    path.write_bytes(b"PK\3\4 and more")
    with pytest.raises(BuildError, match="starts with b'GGUF'; found b'PK"):
        GgufFile(path)
    with pytest.raises(BuildError, match="absent.gguf: cannot be read: No such file"):
        GgufFile(Path("absent.gguf"))


def test_a_missing_tensor_and_a_wrong_shape_are_errors(tiny, tmp_path):
    file = GgufFile(tiny.write(tmp_path / "a.gguf"))
    with pytest.raises(BuildError, match=r'a tensor "nope" of shape \(2, 3\); the file has 29'):
        file.tensor("nope", (2, 3))
    with pytest.raises(BuildError, match=r"got shape \(40, 64\), expected \(64, 40\)"):
        file.tensor("token_embd.weight", (64, 40))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("llama.block_count", 2**31, r'tensor "blk.2147483647.attn_q.weight"'),
        ("llama.block_count", 0, r'"llama.block_count": got 0, expected a whole number from 1'),
        ("llama.attention.head_count", 0, r"got 0, expected a whole number from 1"),
        ("llama.attention.head_count_kv", 2**31, r'"blk.0.attn_k.weight": got shape \(32, 64\)'),
        ("llama.embedding_length", 2**31, r'"token_embd.weight": got shape \(40, 64\)'),
        ("llama.feed_forward_length", 2**31, r'"blk.0.ffn_gate.weight": got shape \(96, 64\)'),
        ("llama.vocab_size", 2**31, r'"token_embd.weight": got shape \(40, 64\)'),
        ("llama.rope.freq_base", float("nan"), r"got nan, expected a finite number"),
    ],
)
def test_gigantic_models_are_not_made(tiny, context, key, value, message):
    tiny.metadata[key] = value
    # It would otherwise be that of the heads.
    if key.endswith("embedding_length"):
        tiny.metadata["llama.attention.key_length"] = 16
    with pytest.raises(BuildError, match=message):
        build(context(tiny))


def test_a_shape_whose_product_wraps_around(tiny, tmp_path):
    path = tiny.write(tmp_path / "a.gguf")
    whole = bytearray(path.read_bytes())
    at = whole.index(b"output_norm.weight") + len("output_norm.weight")
    # One dimension of 64, and then its type: 2^62 elements of 4 bytes are none in 64 bits.
    assert whole[at : at + 12] == struct.pack("<IQ", 1, 64)
    whole[at + 4 : at + 12] = struct.pack("<Q", 1 << 62)
    path.write_bytes(whole)
    with pytest.raises(BuildError, match="its tensors need 1844674407370956"):
        GgufFile(path)
