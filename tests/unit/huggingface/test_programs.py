"""Programs of transformers' architectures, in ExecuTorch's runtime, against transformers itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from architectures import LENGTH, VOCABULARY, checkpoint, context
from etbuild import BuildError, ModelSpec, RecipeContext
from etbuild.options import Options
from etfast import path as fast_path
from etllm.transformers import entry
from etlower import stages
from etlower.progress import Progress
from executorch.runtime import Program, Runtime
from xnnpack_recipes import fp32, int8_dynamic_act_int4_weight

RECIPE = RecipeContext(Options({}))


def lowered(spec: ModelSpec, path: Path, recipe: Any = fp32) -> Program:
    with fast_path.chosen("fast"):
        manager = stages.run(spec, recipe(RECIPE), Progress(), "//m:net", etrecord=False)
    with path.open("wb") as out:
        manager.write_to_file(out)
    return Runtime.get().load_program(path)


def tokens_of(count: int) -> torch.Tensor:
    return torch.randint(4, VOCABULARY, (1, count), generator=torch.Generator().manual_seed(1))


def check(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert expected.std() > 1e-3, "the outputs are all alike"
    torch.testing.assert_close(got, expected, atol=1e-3, rtol=1e-3)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "class_name", "task", "outputs"),
    [
        pytest.param(
            *("bert", "BertForMaskedLM", "fill-mask", ["logits"]), marks=pytest.mark.release
        ),
        (
            "bert",
            "BertForQuestionAnswering",
            "question-answering",
            ["start_logits", "end_logits"],
        ),
        pytest.param(
            *("roberta", "RobertaForTokenClassification", "token-classification", ["logits"]),
            marks=pytest.mark.release,
        ),
        ("roberta", "RobertaModel", "feature-extraction", ["last_hidden_state"]),
    ],
)
def test_texts_of_any_length(
    name: str, class_name: str, task: str, outputs: list[str], tmp_path: Path
) -> None:
    model = checkpoint(name, class_name, tmp_path)
    spec = entry.build(context(tmp_path))
    assert spec.constant_methods["get_task"] == task
    most = spec.constant_methods["get_max_seq_len"]
    assert most == (LENGTH if name == "bert" else LENGTH - 2)
    method = lowered(spec, tmp_path / "net.pte").load_method("forward")
    for count in (1, 7, most):
        tokens = tokens_of(count)
        inputs = [tokens, torch.ones_like(tokens)]
        names = {"input_ids": inputs[0], "attention_mask": inputs[1]}
        if task == "question-answering":
            inputs.append((torch.arange(count) > count // 2).long().view(1, -1))
            names["token_type_ids"] = inputs[2]
        with torch.no_grad():
            expected = model(**names)
        for got, output in zip(method.execute(inputs), outputs, strict=True):
            check(got, expected[output]) if count > 1 else None


def test_texts_on_a_page_take_boxes(tmp_path: Path) -> None:
    model = checkpoint("layoutlm", "LayoutLMForTokenClassification", tmp_path)
    method = entry.build(context(tmp_path, max_length="16")).methods["forward"]
    tokens, mask, boxes = method.example_inputs
    assert boxes.shape == (1, tokens.shape[1], 4)
    assert boxes.dtype == torch.int64
    with torch.no_grad():
        expected = model(input_ids=tokens, attention_mask=mask, bbox=boxes).logits
        assert torch.equal(method.module(tokens, mask, boxes), expected)
        assert not torch.equal(method.module(tokens, mask, boxes // 2), expected)


@pytest.mark.parametrize(
    ("name", "class_name", "shape", "outputs"),
    [
        ("vit", "ViTForImageClassification", (1, 3, 32, 32), ["logits"]),
        pytest.param(
            *("yolos", "YolosForObjectDetection", (1, 3, 32, 48), ["logits", "pred_boxes"]),
            marks=pytest.mark.release,
        ),
        ("hubert", "HubertForCTC", (1, 4000), ["logits"]),
    ],
)
def test_images_and_audio(
    name: str, class_name: str, shape: tuple[int, ...], outputs: list[str], tmp_path: Path
) -> None:
    model = checkpoint(name, class_name, tmp_path)
    args = {"samples": "4000"} if name == "hubert" else {}
    method = lowered(entry.build(context(tmp_path, **args)), tmp_path / "net.pte")
    values = torch.randn(shape)
    with torch.no_grad():
        expected = model(values)
    got = method.load_method("forward").execute([values])
    for value, output in zip(got, outputs, strict=True):
        check(value, expected[output])


@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        pytest.param("bert decoder", "BertLMHeadModel", marks=pytest.mark.release),
        ("llama", "LlamaForCausalLM"),
        ("mixtral", "MixtralForCausalLM"),
    ],
)
@pytest.mark.few(1)
def test_decoders_continue_what_their_cache_holds(
    name: str, class_name: str, tmp_path: Path
) -> None:
    model = checkpoint(name, class_name, tmp_path)
    spec = entry.build(context(tmp_path, dynamic="true", prefill_length="18"))
    metadata = spec.constant_methods
    assert (metadata["get_max_seq_len"], metadata["get_max_context_len"]) == (18, LENGTH)
    assert (metadata["get_bos_id"], metadata["get_eos_ids"]) == (1, [2])
    method = lowered(spec, tmp_path / "net.pte").load_method("forward")
    tokens = tokens_of(LENGTH)
    with torch.no_grad():
        expected = model(tokens).logits[0]
    # The second conversation begins where the first one's tokens still are.
    for pieces in ([(0, 12), (12, 13), (13, 30), (30, LENGTH)], [(0, 5), (5, 6)]):
        for start, end in pieces:
            (got,) = method.execute([tokens[:, start:end], torch.tensor([start])])
            check(got[0], expected[end - 1])


@pytest.mark.release
@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("mamba", "MambaForCausalLM"),
        pytest.param("qwen3_next", "Qwen3NextForCausalLM", marks=pytest.mark.release),
    ],
)
def test_states_of_decoders_begin_anew(name: str, class_name: str, tmp_path: Path) -> None:
    """transformers reads all tokens at once, the program one by one."""
    model = checkpoint(name, class_name, tmp_path)
    spec = entry.build(context(tmp_path, max_length=str(LENGTH)))
    assert spec.constant_methods["enable_dynamic_shape"] is False
    method = lowered(spec, tmp_path / "net.pte").load_method("forward")
    for count in (7, 3):
        tokens = tokens_of(LENGTH)[:, count : 2 * count]
        with torch.no_grad():
            expected = model(tokens).logits[0]
        for i in range(count):
            (got,) = method.execute([tokens[:, i : i + 1], torch.tensor([i])])
            check(got[0], expected[i])


def test_states_take_single_tokens(tmp_path: Path) -> None:
    checkpoint("mamba", "MambaForCausalLM", tmp_path)
    message = 'option "dynamic": got "true", expected false: layers of mamba keep a state'
    with pytest.raises(BuildError, match=message):
        entry.build(context(tmp_path, max_length="8", dynamic="true"))


def test_mixtures_of_experts_read_single_tokens(tmp_path: Path) -> None:
    """Unless the target says otherwise."""
    checkpoint("mixtral", "MixtralForCausalLM", tmp_path)
    spec = entry.build(context(tmp_path))
    assert spec.methods["forward"].example_inputs[0].shape == (1, 1)
    assert spec.constant_methods["enable_dynamic_shape"] is False


@pytest.mark.release
def test_linear_layers_of_decoders_are_quantized(tmp_path: Path) -> None:
    model = checkpoint("llama", "LlamaForCausalLM", tmp_path)
    spec = entry.build(context(tmp_path, dynamic="false", max_length="16"))
    program = lowered(spec, tmp_path / "net.pte", int8_dynamic_act_int4_weight)
    token = tokens_of(1)
    (got,) = program.load_method("forward").execute([token, torch.tensor([0])])
    with torch.no_grad():
        expected = model(token).logits[0, -1:]
    error = (got - expected).std() / expected.std()
    assert 1e-3 < error < 0.7, "4 bits are neither exact nor far off"


@pytest.mark.release
@pytest.mark.parametrize(
    ("name", "class_name"),
    [
        ("t5", "T5ForConditionalGeneration"),
        pytest.param(
            *("vision-encoder-decoder", "VisionEncoderDecoderModel"), marks=pytest.mark.release
        ),
        pytest.param(*("whisper", "WhisperForConditionalGeneration"), marks=pytest.mark.release),
    ],
)
def test_decoders_read_what_their_encoder_returned(
    name: str, class_name: str, tmp_path: Path
) -> None:
    model = checkpoint(name, class_name, tmp_path)
    spec = entry.build(context(tmp_path, max_length="24"))
    program = lowered(spec, tmp_path / "net.pte")
    encoder, decoder = program.load_method("encoder"), program.load_method("text_decoder")
    tokens = tokens_of(20)
    sources = {
        "t5": [tokens_of(9), tokens_of(24)],
        "vision-encoder-decoder": [torch.randn(1, 3, 32, 32)],
        "whisper": [torch.randn(1, 8, 40)],
    }
    for source in sources[name]:
        (memory,) = encoder.execute([source])
        with torch.no_grad():
            expected = model(source, decoder_input_ids=tokens).logits[0]
        for start, end in ((0, 3), (3, 4), (4, 20)):
            (got,) = decoder.execute([tokens[:, start:end], memory, torch.tensor([start])])
            check(got[0], expected[end - 1])
