"""Models that read images or audio beside text, against transformers itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

# Before the import: nothing may be asked of a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import transformers as hf
from etbuild import BuildError, ModelContext, ModelSpec, RecipeContext
from etbuild.options import Options
from etexport import stages
from etexport.progress import Progress
from etfast import path as fast_path
from ettransformers import entry
from ettransformers.tracing import Constants
from tokenizers import Tokenizer, decoders, models
from xnnpack_recipes import fp32

# Gemma 3 runs in upstream's runner below, and the others are near the three that always run.
RELEASED = ["gemma3", "glm4v", "lighton_ocr", "qwen2_5_vl", "smolvlm"]
# Those that read patches.
PATCHED = ("glm4v", "qwen2_vl", "qwen2_5_vl")
# 256 words, and the tokens that no text has.
MEDIA, VOCABULARY, LENGTH, ANSWER = 259, 260, 48, 5
TEXT = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": LENGTH,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 258,
    "tie_word_embeddings": False,
}
VISION = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
GRID = {
    "depth": 2,
    "hidden_size": 32,
    "num_heads": 4,
    "patch_size": 8,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
TURNED = {
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "mrope_section": [1, 1, 2],
    }
}
LLAMA = {"model_type": "llama", **TEXT}
BEFORE, AFTER = [3, 5, 7, 9, 11], [20, 21, 22]


def model_of(name: str) -> Any:
    configs = {
        "gemma3": lambda: hf.Gemma3Config(
            vision_config=VISION,
            # A window that is shorter than the prompt.
            text_config=TEXT
            | {"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"]},
            mm_tokens_per_image=4,
            image_token_id=MEDIA,
        ),
        "glm4v": lambda: hf.Glm4vConfig(
            vision_config=GRID | {"image_size": 32, "out_hidden_size": 32, "intermediate_size": 48},
            text_config=TEXT | TURNED,
            image_token_id=MEDIA,
        ),
        "lighton_ocr": lambda: hf.LightOnOcrConfig(
            vision_config=VISION | {"model_type": "pixtral", "head_dim": 8},
            text_config=TEXT | {"model_type": "qwen3"},
            image_token_id=MEDIA,
        ),
        "llava": lambda: hf.LlavaConfig(
            vision_config=VISION | {"model_type": "clip_vision_model", "projection_dim": 32},
            text_config=LLAMA,
            image_token_id=MEDIA,
        ),
        "qwen2_5_vl": lambda: hf.Qwen2_5_VLConfig(
            vision_config=GRID
            | {
                "out_hidden_size": 32,
                "intermediate_size": 48,
                "window_size": 32,
                "fullatt_block_indexes": [1],
            },
            text_config=TEXT | TURNED,
            image_token_id=MEDIA,
        ),
        "qwen2_vl": lambda: hf.Qwen2VLConfig(
            vision_config=GRID | {"embed_dim": 32, "mlp_ratio": 2},
            text_config=TEXT | TURNED,
            image_token_id=MEDIA,
        ),
        "smolvlm": lambda: hf.SmolVLMConfig(
            vision_config=VISION, text_config=LLAMA, image_token_id=MEDIA, scale_factor=2
        ),
        "voxtral": lambda: hf.VoxtralConfig(
            audio_config={
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "intermediate_size": 128,
                "num_mel_bins": 8,
                "max_source_positions": 20,
            },
            text_config=LLAMA,
            audio_token_id=MEDIA,
        ),
    }
    config = configs[name]()
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    names = hf.models.auto.modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES
    model = getattr(hf, names[name])(config).eval()
    # Those that transformers draws are so small that most errors would not show.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn_like(parameter) * 0.3)
        # Else a token decides alone what follows it.
        model.get_input_embeddings().weight.mul_(0.1)
    return model


def spec_of(model: Any, folder: Path, **args: str) -> ModelSpec:
    model.save_pretrained(folder)
    values = '{"image_mean": [0.4, 0.5, 0.6], "image_std": [0.3, 0.2, 0.3]}'
    (folder / "preprocessor_config.json").write_text(values)
    files = {path.name: path for path in folder.iterdir()}
    return entry.build(ModelContext(args, files, "//m:net"))


def size_of(name: str) -> tuple[int, int]:
    return (32, 48) if name in PATCHED or name == "lighton_ocr" else (32, 32)


def pixels_of(name: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (1, 3, *size_of(name)), dtype=torch.uint8, generator=generator)


def expected_answer(model: Any, name: str, count: int) -> list[int]:
    """What transformers generates."""
    tokens = torch.tensor([BEFORE + [MEDIA] * count + AFTER])
    its: dict[str, Any] = {}
    if name == "voxtral":
        its["input_features"] = features()
    else:
        mean, std = ([0.4, 0.5, 0.6], [0.3, 0.2, 0.3])
        image = pixels_of(name)
        values = (image / 255 - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(
            1, 3, 1, 1
        )
        its["pixel_values"] = values[:, None] if name == "smolvlm" else values
        kinds = (tokens == MEDIA).long()
        if name == "gemma3":
            its["token_type_ids"] = kinds
        if name == "lighton_ocr":
            its["image_sizes"] = torch.tensor([size_of(name)])
        if name in PATCHED:
            its["pixel_values"] = patches_of(values[0])
            its["image_grid_thw"] = torch.tensor([[1, 4, 6]])
            its["mm_token_type_ids"] = kinds
    answer = model.generate(
        tokens, **its, max_new_tokens=ANSWER, do_sample=False, eos_token_id=VOCABULARY
    )
    return answer[0, tokens.shape[1] :].tolist()


def patches_of(image: torch.Tensor) -> torch.Tensor:
    """Patches of 8 x 8 pixels, each twice as of two moments; the four of a merged one in a row."""
    rows = []
    for top in range(0, image.shape[1], 16):
        for left in range(0, image.shape[2], 16):
            for y, x in ((0, 0), (0, 8), (8, 0), (8, 8)):
                patch = image[:, top + y : top + y + 8, left + x : left + x + 8]
                rows.append(torch.stack([patch, patch], dim=1).flatten())
    return torch.stack(rows)


def features() -> torch.Tensor:
    return torch.randn(1, 8, 40, generator=torch.Generator().manual_seed(1))


def played(spec: ModelSpec, name: str) -> tuple[list[int], int]:
    """What the methods answer in the order of MultimodalRunner's calls, and the media's length."""
    module = {name: method.module for name, method in spec.methods.items()}
    position, answer = 0, []
    with torch.no_grad():
        if name == "voxtral":
            media = module["audio_encoder"](features())
        else:
            media = module["vision_encoder"](pixels_of(name))
        parts = [
            module["token_embedding"](torch.tensor([BEFORE])),
            media,
            module["token_embedding"](torch.tensor([AFTER])),
        ]
        while len(answer) < ANSWER:
            part = parts.pop(0)
            logits = module["text_decoder"](part, torch.tensor([position]))
            position += part.shape[1]
            if not parts:
                answer.append(int(logits.argmax()))
                parts = [module["token_embedding"](torch.tensor([answer[-1:]]))]
    return answer, media.shape[1]


@pytest.mark.parametrize(
    "name",
    [
        "llava",
        "qwen2_vl",
        "voxtral",
        *(pytest.param(name, marks=pytest.mark.release) for name in RELEASED),
    ],
)
def test_methods_answer_as_transformers_does(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    height, width = size_of(name)
    args = {} if name == "voxtral" else {"image_size": f"{height}x{width}"}
    spec = spec_of(model, tmp_path, **args)
    task = "audio-text-to-text" if name == "voxtral" else "image-text-to-text"
    assert spec.constant_methods["get_task"] == task
    answer, count = played(spec, name)
    assert len(set(answer)) > 1, "the answer does not depend on what was read"
    assert answer == expected_answer(model, name, count)


def lowered(spec: ModelSpec, path: Path) -> Path:
    recipe = fp32(RecipeContext(Options({})))
    with fast_path.chosen("fast"):
        manager = stages.run(spec, recipe, Progress(), "//m:net", etrecord=False)
    with path.open("wb") as out:
        manager.write_to_file(out)
    return path


def test_upstreams_multimodal_runner_answers_as_transformers_does(tmp_path: Path) -> None:
    """Gemma 3, whose images attend to themselves."""
    from executorch.extension.llm import runner

    model = model_of("gemma3")
    (tmp_path / "checkpoint").mkdir()
    spec = spec_of(model, tmp_path / "checkpoint", image_size="32x32")
    program = lowered(spec, tmp_path / "net.pte")
    words = Tokenizer(models.BPE(vocab={f"{i:03}": i for i in range(256)}, merges=[]))
    words.add_special_tokens(["<b>", "<e>", "<p>", "<i>"])
    words.decoder = decoders.ByteLevel()
    words.save(str(tmp_path / "tokenizer.json"))
    said: list[str] = []
    runner.MultimodalRunner(str(program), str(tmp_path / "tokenizer.json")).generate(
        [
            runner.make_token_input(BEFORE),
            runner.make_image_input(pixels_of("gemma3")[0]),
            runner.make_token_input(AFTER),
        ],
        runner.GenerationConfig(max_new_tokens=ANSWER, temperature=0.0, echo=False),
        said.append,
    )
    expected = expected_answer(model, "gemma3", 4)
    assert said == [words.decode([token], skip_special_tokens=False) for token in expected]


def test_an_image_has_to_fit_into_the_cache(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"max_length: got 4, expected more than 4, the positions"):
        spec_of(model_of("gemma3"), tmp_path, image_size="32x32", max_length="4")


def test_models_without_embeddings_of_images_are_refused(tmp_path: Path) -> None:
    config = hf.BlipConfig(
        vision_config=VISION, text_config=TEXT | {"encoder_hidden_size": 32}, projection_dim=32
    )
    with pytest.raises(BuildError, match="BlipForConditionalGeneration: it has no get_image_feat"):
        spec_of(hf.BlipForConditionalGeneration(config), tmp_path)


def test_a_decoder_that_reads_inner_layers_of_its_encoder_is_refused(tmp_path: Path) -> None:
    config = hf.Qwen3VLConfig(
        vision_config=GRID
        | {"out_hidden_size": 32, "intermediate_size": 48, "deepstack_visual_indexes": [0]},
        text_config=TEXT | TURNED,
        image_token_id=MEDIA,
    )
    with pytest.raises(BuildError, match=r"inner layers of the encoder saw \(deepstack\)"):
        spec_of(hf.Qwen3VLForConditionalGeneration(config), tmp_path, image_size="32x32")


def test_sizes_that_depend_on_values_are_refused() -> None:
    with pytest.raises(BuildError, match="sizes inside the encoder depend on its input's values"):
        Constants(torch.nn.Linear(1, 1)).record(
            lambda value: value.tolist(), [torch.tensor(1), torch.tensor(2)]
        )
