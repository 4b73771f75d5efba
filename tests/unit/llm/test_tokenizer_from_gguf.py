"""etllm.tokenizer.tokenizer_from_gguf: from a GGUF file's metadata to Hugging Face's files."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import gguf
import numpy as np
import pytest
from etbuild import BuildError
from etllm.tokenizer.tokenizer_from_gguf import build_config, build_tokenizer, main, read_metadata


def write(metadata, path):
    """Writes a GGUF file with the metadata and one tensor."""
    writer = gguf.GGUFWriter(path, metadata["general.architecture"])
    for key, value in metadata.items():
        if key == "general.architecture":
            continue
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, int):
            writer.add_uint32(key, value)
        else:
            writer.add_string(key, value)
    writer.add_tensor("token_embd.weight", np.zeros((8, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_text_becomes_the_files_tokens(tokenizer):
    encoded = tokenizer.encode("<|im_start|>the the 12")
    assert encoded.tokens == ["<|im_start|>", "the", "Ġthe", "Ġ", "1", "2"]
    assert encoded.ids[0] == 1
    assert tokenizer.decode(encoded.ids) == "the the 12"


def test_digits_stay_together_where_the_file_says_gpt2(metadata):
    metadata["tokenizer.ggml.pre"] = "gpt-2"
    assert build_tokenizer(metadata, "x").encode("12").tokens == ["12"]


@pytest.mark.parametrize("text", ["naïve 日本 🎉", "  two  spaces\n", "\x00\x7f", "3.14159"])
def test_any_text_survives(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_config_has_the_template_and_special_tokens(metadata):
    metadata["tokenizer.ggml.eot_token_id"] = 0
    assert build_config(metadata, "x") == {
        "add_bos_token": False,
        "bos_token": "<|im_start|>",
        "bos_token_id": 1,
        "chat_template": metadata["tokenizer.chat_template"],
        "eos_token": "<|im_end|>",
        "eos_token_id": 2,
        "eos_token_ids": [0, 2],
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<|endoftext|>",
        "unk_token_id": 0,
    }


def test_the_same_file_gives_the_same_bytes(metadata, tmp_path):
    path = write(metadata, tmp_path / "a.gguf")
    written = []
    for seed in ("1", "2"):
        out = [tmp_path / f"tokenizer{seed}.json", tmp_path / f"config{seed}.json"]
        command = [sys.executable, "-m", "etllm.tokenizer.tokenizer_from_gguf"]
        command += ["--gguf", path, "--output", out[0], "--config", out[1]]
        places = os.pathsep.join(filter(None, sys.path))
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": places, "PYTHONDONTWRITEBYTECODE": "1"}
        subprocess.run(command, check=True, env=env)
        written.append([file.read_bytes() for file in out])
    assert written[0] == written[1]
    assert json.loads(written[0][1])["eos_token_ids"] == [2]


def test_metadata_survive_the_file(metadata, tmp_path):
    values = read_metadata(write(metadata, tmp_path / "a.gguf"))
    assert {key: values[key] for key in metadata} == metadata


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model", "llama", "got 'llama', expected \"gpt2\""),
        ("pre", "tekken", "got 'tekken', expected one of: gpt-2, smollm"),
        ("tokens", None, "tokens: got NoneType, expected a list of strings"),
        ("tokens", ["a", "a"], "got 1 different tokens and .* types, expected 2"),
        ("token_type", [1], "got 263 different tokens and 1 types"),
        ("merges", ["t q"], '"t q" does not join two tokens'),
        ("merges", ["the"], '"the" does not join two tokens'),
    ],
)
def test_a_wrong_tokenizer_is_an_error(metadata, key, value, message):
    metadata[f"tokenizer.ggml.{key}"] = value
    with pytest.raises(BuildError, match=f"a.gguf.*{message}"):
        build_tokenizer(metadata, "a.gguf")


def test_a_special_token_outside_the_vocabulary_is_an_error(metadata):
    metadata["tokenizer.ggml.eos_token_id"] = 900
    with pytest.raises(BuildError, match="the eos token: got 900, expected a number below 263"):
        build_config(metadata, "a.gguf")


def test_a_truncated_file_ends_the_command(metadata, tmp_path, capsys):
    path = write(metadata, tmp_path / "a.gguf")
    path.write_bytes(path.read_bytes()[:3000])
    output = tmp_path / "tokenizer.json"
    assert main(["--gguf", str(path), "--output", str(output)]) == 1
    assert f"{path}: expected a complete GGUF file; found 3000 bytes" in capsys.readouterr().err
    assert not output.exists()
    assert main(["--gguf", str(tmp_path / "b.gguf"), "--output", str(output)]) == 1
    assert "b.gguf: cannot be read" in capsys.readouterr().err
