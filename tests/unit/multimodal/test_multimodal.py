"""Models that read images or audio beside text, against transformers itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# Before the import: nothing may be asked of a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import transformers as hf
from etbuild import BuildError, ModelContext, ModelSpec, RecipeContext
from etbuild.options import Options
from etfast import path as fast_path
from etllm.transformers import entry, patches
from etllm.transformers.constants import Constants
from etllm.transformers.tracing import replacements
from etlower import stages
from etlower.progress import Progress
from runner.api.executorch_app import App
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch.nn import functional
from xnnpack_recipes import fp32

# Gemma 3 runs in upstream's runner below, and the others are near the three that always run.
RELEASED = [
    "gemma3",
    "glm4v",
    "glmasr",
    "lfm2_vl",
    "lighton_ocr",
    "mistral3",
    "qwen2_audio",
    "qwen2_vl",
    "smolvlm",
]
# Those that read patches.
PATCHED = ("glm4v", "qwen2_vl", "qwen2_5_vl", "qwen3_vl")
# Those that hear.
RECORDED = ("glmasr", "qwen2_audio", "voxtral")
# Those that are told an image's size.
SIZED = ("lighton_ocr", "mistral3")
# 256 words, and the tokens that no text has.
MEDIA, VOCABULARY, LENGTH, ANSWER = 259, 260, 72, 5
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
        "glmasr": lambda: hf.GlmAsrConfig(
            audio_config={
                "hidden_size": 32,
                "num_hidden_layers": 2,
                "num_attention_heads": 4,
                "num_key_value_heads": 4,
                "head_dim": 8,
                "intermediate_size": 128,
                "num_mel_bins": 8,
                "max_position_embeddings": 20,
            },
            text_config=LLAMA,
            audio_token_id=MEDIA,
        ),
        "lfm2_vl": lambda: hf.Lfm2VlConfig(
            vision_config=VISION | {"model_type": "siglip2_vision_model", "num_patches": 16},
            text_config=LLAMA,
            downsample_factor=2,
            projector_hidden_size=32,
            image_token_id=MEDIA,
        ),
        "llava": lambda: hf.LlavaConfig(
            vision_config=VISION | {"model_type": "clip_vision_model", "projection_dim": 32},
            text_config=LLAMA,
            image_token_id=MEDIA,
        ),
        "llava_next": lambda: hf.LlavaNextConfig(
            vision_config=VISION | {"model_type": "clip_vision_model", "projection_dim": 32},
            text_config=LLAMA,
            image_grid_pinpoints=[[32, 64], [64, 64]],
            image_token_id=MEDIA,
        ),
        "mistral3": lambda: hf.Mistral3Config(
            vision_config=VISION | {"model_type": "pixtral", "head_dim": 8},
            text_config=LLAMA,
            image_token_id=MEDIA,
        ),
        "qwen2_audio": lambda: hf.Qwen2AudioConfig(
            audio_config={
                "d_model": 32,
                "encoder_layers": 2,
                "encoder_attention_heads": 4,
                "encoder_ffn_dim": 48,
                "num_mel_bins": 8,
                "max_source_positions": 20,
            },
            text_config=LLAMA,
            audio_token_id=MEDIA,
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
        # Inner layers of its encoder go to the decoder's, too.
        "qwen3_vl": lambda: hf.Qwen3VLConfig(
            vision_config=GRID
            | {
                "out_hidden_size": 32,
                "intermediate_size": 48,
                "num_position_embeddings": 16,
                "deepstack_visual_indexes": [0],
            },
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


def spec_of(
    model: Any, folder: Path, preprocessing: dict[str, Any] | None = None, **args: str
) -> ModelSpec:
    model.save_pretrained(folder)
    values = {"image_mean": [0.4, 0.5, 0.6], "image_std": [0.3, 0.2, 0.3], **(preprocessing or {})}
    (folder / "preprocessor_config.json").write_text(json.dumps(values))
    files = {path.name: path for path in folder.iterdir()}
    return entry.build(ModelContext(args, files, "//m:net"))


def size_of(name: str) -> tuple[int, int]:
    if name == "llava_next":
        return (32, 64)
    return (32, 48) if name in (*PATCHED, *SIZED) or name == "lfm2_vl" else (32, 32)


def pixels_of(name: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, 256, (1, 3, *size_of(name)), dtype=torch.uint8, generator=generator)


def expected_answer(model: Any, name: str, count: int) -> list[int]:
    """Generates the answer with transformers."""
    tokens = torch.tensor([BEFORE + [MEDIA] * count + AFTER])
    arguments: dict[str, Any] = {}
    if name in RECORDED:
        arguments["input_features"] = features()
        if name == "glmasr":
            arguments["input_features_mask"] = torch.ones(1, 40, dtype=torch.long)
        if name == "qwen2_audio":
            arguments["feature_attention_mask"] = torch.ones(1, 40, dtype=torch.long)
    else:
        mean, std = ([0.4, 0.5, 0.6], [0.3, 0.2, 0.3])
        image = pixels_of(name)
        values = (image / 255 - torch.tensor(mean).view(1, 3, 1, 1)) / torch.tensor(std).view(
            1, 3, 1, 1
        )
        arguments["pixel_values"] = values[:, None] if name == "smolvlm" else values
        kinds = (tokens == MEDIA).long()
        if name == "gemma3":
            arguments["token_type_ids"] = kinds
        if name == "lfm2_vl":
            rows = values[0].unfold(1, 8, 8).unfold(2, 8, 8).permute(1, 2, 3, 4, 0)
            arguments["pixel_values"] = rows.reshape(1, 24, -1)
            arguments["spatial_shapes"] = torch.tensor([[4, 6]])
            arguments["pixel_attention_mask"] = torch.ones(1, 24, dtype=torch.long)
        if name == "llava_next":
            small = torch.nn.functional.interpolate(
                values, (32, 32), mode="bicubic", antialias=True
            )
            arguments["pixel_values"] = torch.cat([small, values[..., :32], values[..., 32:]])[None]
        if name in (*SIZED, "llava_next"):
            arguments["image_sizes"] = torch.tensor([size_of(name)])
        if name in PATCHED:
            arguments["pixel_values"] = patches_of(values[0])
            arguments["image_grid_thw"] = torch.tensor([[1, 4, 6]])
            arguments["mm_token_type_ids"] = kinds
    answer = model.generate(
        tokens, **arguments, max_new_tokens=ANSWER, do_sample=False, eos_token_id=VOCABULARY
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
    """Calls the methods in MultimodalRunner's order: their answer, and the media's length."""
    module = {name: method.module for name, method in spec.methods.items()}
    position, answer = 0, []
    with torch.no_grad():
        if name in RECORDED:
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


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "name",
    [
        "llava",
        "llava_next",
        "qwen2_5_vl",
        "qwen3_vl",
        "voxtral",
        *(pytest.param(name, marks=pytest.mark.release) for name in RELEASED),
    ],
)
def test_methods_answer_as_transformers_does(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    height, width = size_of(name)
    args = {} if name in RECORDED else {"image_size": f"{height}x{width}"}
    spec = spec_of(model, tmp_path, **args)
    task = "audio-text-to-text" if name in RECORDED else "image-text-to-text"
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


@pytest.mark.release
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


@pytest.mark.parametrize("name", ["smolvlm", pytest.param("voxtral", marks=pytest.mark.release)])
def test_our_runner_answers_as_transformers_does(name: str, tmp_path: Path) -> None:
    """The program's own message, with the place once and as often as it has positions."""
    model = model_of(name)
    (tmp_path / "checkpoint").mkdir()
    size = {} if name in RECORDED else {"image_size": "32x32"}
    spec = spec_of(model, tmp_path / "checkpoint", **size)
    assert spec.constant_methods["get_media_token_id"] == MEDIA
    program = lowered(spec, tmp_path / "net.pte")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    words.decoder = decoders.ByteLevel()
    words.add_special_tokens(["<b>", "<e>", "<p>", "<i>"])
    words.save(str(tmp_path / "tokenizer.json"))
    before, after = ("".join(alphabet[token] for token in part) for part in (BEFORE, AFTER))
    media = features() if name in RECORDED else pixels_of(name)
    options = {"tokenizer": tmp_path / "tokenizer.json", "raw": True, "max_new_tokens": ANSWER}
    with App(program) as app, app.session() as session, session.chat(**options) as chat:
        chat.attach(media.numpy())
        count = chat.count_tokens(f"{before}<i>{after}") - len(BEFORE + AFTER)
        expected = expected_answer(model, name, count)
        assert len(set(expected)) > 1, "the answer does not depend on what was read"
        for place in ("<i>", "<i>" * count):
            assert list(chat.say(f"{before}{place}{after}").token_ids) == expected
            chat.rewind(0)
            chat.attach(media.numpy())


def test_an_image_has_to_fit_into_the_cache(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"max_length: got 4, expected more than 4, the positions"):
        spec_of(model_of("gemma3"), tmp_path, image_size="32x32", max_length="4")


def test_an_image_has_to_be_made_of_tiles(tmp_path: Path) -> None:
    expected = r'image_size": got "32x32", expected one of 32x64, 64x64, sizes that the model cuts'
    with pytest.raises(BuildError, match=expected):
        spec_of(model_of("llava_next"), tmp_path, image_size="32x32")


def test_an_image_is_made_small_in_a_known_way(tmp_path: Path) -> None:
    expected = r"preprocessor_config.json: resample: got 0, expected 2 \(bilinear\) or 3"
    with pytest.raises(BuildError, match=expected):
        spec_of(model_of("llava_next"), tmp_path, {"resample": 0})


def test_models_that_are_told_each_patch_s_place_are_refused(tmp_path: Path) -> None:
    config = hf.Gemma4Config(text_config=TEXT | {"hidden_size_per_layer_input": 8})
    expected = "Gemma4ForConditionalGeneration: get_image_features needs image_position_ids"
    with pytest.raises(BuildError, match=expected):
        spec_of(hf.Gemma4ForConditionalGeneration(config), tmp_path)


def test_models_without_embeddings_of_images_are_refused(tmp_path: Path) -> None:
    config = hf.BlipConfig(
        vision_config=VISION, text_config=TEXT | {"encoder_hidden_size": 32}, projection_dim=32
    )
    with pytest.raises(BuildError, match="BlipForConditionalGeneration: it has no get_image_feat"):
        spec_of(hf.BlipForConditionalGeneration(config), tmp_path)


def test_an_image_whose_places_depend_on_where_it_is_is_refused(tmp_path: Path) -> None:
    config = hf.HunYuanVLConfig(
        vision_config=VISION | {"text_hidden_size": 32, "out_hidden_size": 32},
        text_config=TEXT | TURNED,
        image_token_id=MEDIA,
    )
    with pytest.raises(BuildError, match="get_rope_index: an image's places depend on where it is"):
        spec_of(hf.HunYuanVLForConditionalGeneration(config), tmp_path, image_size="64x64")


@pytest.mark.release
def test_an_encoder_reads_an_image_and_a_prompt(tmp_path: Path) -> None:
    """Florence 2, whose decoder reads what its encoder returned of both."""
    stages = {"depths": [1] * 4, "embed_dim": [16, 16, 32, 32], "num_heads": [2] * 4}
    config = hf.Florence2Config(
        vision_config=stages | {"num_groups": [2] * 4, "window_size": 2, "projection_dim": 32},
        text_config={
            "model_type": "bart",
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 4,
            "decoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "decoder_ffn_dim": 48,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": LENGTH,
        },
        image_token_id=MEDIA,
    )
    torch.manual_seed(0)
    model = hf.Florence2ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(torch.randn_like(parameter) * 0.1)
    spec = spec_of(model, tmp_path, image_size="64x64")
    encoder, decoder = (spec.methods[name].module for name in ("encoder", "text_decoder"))
    pixels, prompt = torch.randn(1, 3, 64, 64), torch.tensor([BEFORE])
    answer = torch.tensor([AFTER])
    with torch.no_grad():
        memory = encoder(pixels, prompt)
        image = torch.full((1, memory.shape[2] - len(BEFORE)), MEDIA)
        expected = model(
            input_ids=torch.cat([image, prompt], dim=1),
            pixel_values=pixels,
            decoder_input_ids=answer,
        ).logits[:, -1]
        torch.testing.assert_close(decoder(answer, memory, torch.tensor([0])), expected)
    assert expected.std() > 0.1


def test_a_prompt_that_reads_what_comes_is_refused(tmp_path: Path) -> None:
    config = hf.PaliGemmaConfig(
        vision_config=VISION | {"model_type": "siglip_vision_model"},
        text_config=TEXT | {"model_type": "gemma"},
        projection_dim=32,
        image_token_id=MEDIA,
    )
    with pytest.raises(BuildError, match="positions of a prompt read those after them"):
        spec_of(hf.PaliGemmaForConditionalGeneration(config), tmp_path, image_size="32x32")


def test_sizes_that_depend_on_values_are_refused() -> None:
    with pytest.raises(BuildError, match="sizes inside the encoder depend on its input's values"):
        Constants(torch.nn.Linear(1, 1)).record(
            lambda value: value.tolist(), [torch.tensor(1), torch.tensor(2)]
        )


def test_a_line_that_reads_a_number_gets_the_one_of_the_eager_run() -> None:
    """Of a size that a tensor holds: a traced tensor's would be unknown."""

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.constants = Constants(self)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            with self.constants.replayed():
                sizes = torch.tensor([values.shape[1] // 2, 2])
                rows, columns = int(sizes[0]), sizes.tolist()[1]
                first = values[0][torch.arange(6) < 2 * columns]
                return values.reshape(rows, columns) + first.sum()

    net, values = Net(), torch.arange(6.0).view(1, 6)
    net.constants.record(net, [values, -values])
    exported = torch.export.export(net, (values,), strict=False)
    code = exported.graph_module.code
    assert "item" not in code and "nonzero" not in code
    assert torch.equal(exported.module()(values), values.view(3, 2) + 6)


def test_sorting_becomes_an_operator_that_has_a_kernel() -> None:
    class Net(torch.nn.Module):
        def forward(self, values: torch.Tensor) -> tuple[torch.Tensor, ...]:
            with replacements():
                largest = values.sort(dim=0, descending=True)
                return largest.values, largest.indices, torch.argsort(values)

    values = torch.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    exported = torch.export.export(Net(), (values,), strict=False)
    assert "sort" not in exported.graph_module.code
    for got, expected in zip(exported.module()(values), Net()(values), strict=True):
        assert torch.equal(got, expected)


def turned(values: torch.Tensor) -> torch.Tensor:
    angles = torch.polar(torch.ones(3, 2), torch.arange(6.0).view(3, 2))[:, None]
    pairs = torch.view_as_complex(values.reshape(3, 2, 2, 2))
    return torch.view_as_real(pairs * angles * 2).flatten(2)


def bagged(values: torch.Tensor) -> torch.Tensor:
    places = torch.tensor([[0, 2], [1, 1]])
    weights = torch.tensor([[0.5, 2.0], [1.0, 3.0]])
    return functional.embedding_bag(places, values, per_sample_weights=weights, mode="sum")


def filmed(values: torch.Tensor) -> torch.Tensor:
    """Two frames a step, of which there are two."""
    film = values.view(1, 1, 4, 2, 3).expand(-1, 2, -1, -1, -1)
    return functional.conv3d(film, torch.arange(8.0).view(1, 2, 2, 1, 2), None, (2, 1, 1))


def ranked(values: torch.Tensor) -> torch.Tensor:
    """Of equal numbers, the first comes first."""
    return torch.tensor([2, 1, 2, 1]).sort(descending=True).indices.float() + values.sum()


@pytest.mark.parametrize(
    ("function", "shape", "missing"),
    [
        (turned, (3, 8), "complex"),
        (bagged, (3, 4), "embedding_bag"),
        (filmed, (4, 6), "conv3d"),
        (ranked, (2, 2), "sort"),
    ],
)
def test_what_has_no_kernel_is_computed_in_steps(
    function: Any, shape: tuple[int, ...], missing: str
) -> None:
    class Net(torch.nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            with replacements():
                return function(values)

    values = torch.randn(shape)
    exported = torch.export.export(Net(), (values,), strict=False)
    assert missing not in exported.graph_module.code
    torch.testing.assert_close(exported.module()(values), function(values))


def test_bounds_and_sizes_that_are_tensors_are_numbers() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.constants = Constants(self)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            with replacements(), self.constants.replayed():
                rows, columns = torch.tensor([values.shape[1] // 2, 2])
                if rows > columns:
                    values = values.reshape(rows, columns)[: rows - 1]
                return values + torch.arange(columns)

    net, values = Net(), torch.arange(6.0).view(1, 6)
    net.constants.record(net, [values, -values])
    exported = torch.export.export(net, (values,), strict=False)
    assert "item" not in exported.graph_module.code
    expected = values.view(3, 2)[:2] + torch.arange(2)
    assert torch.equal(exported.module()(values), expected)


def vision(**sizes: int) -> SimpleNamespace:
    return SimpleNamespace(patch_size=2, **sizes)


@pytest.mark.parametrize(
    ("architecture", "order"),
    [
        ("qwen2_vl", [0, 1, 6, 7, 2, 3, 8, 9]),
        ("hunyuan_vl", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("kimi_k25", [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_patches_lie_as_an_architectures_image_processor_lays_them(
    architecture: str, order: list[int]
) -> None:
    """An image of 4 x 6 patches, of which each has its own color; they are merged by 2 x 2."""
    config = SimpleNamespace(model_type=architecture, vision_config=vision(spatial_merge_size=2))
    numbers = torch.arange(24.0).view(4, 6)
    image = numbers.repeat_interleave(2, 0).repeat_interleave(2, 1).expand(1, 3, -1, -1)
    cut = patches.layout_of(config, {}, (1, 3, 8, 12)).cut(image)
    assert cut.flatten(1).min(1).values.tolist() == cut.flatten(1).max(1).values.tolist()
    assert cut.flatten(1)[:8, 0].tolist() == order


def test_an_image_is_made_of_whole_patches() -> None:
    config = SimpleNamespace(model_type="qwen2_vl", vision_config=vision(spatial_merge_size=2))
    with pytest.raises(BuildError, match=r"image_size: got 8x10, expected multiples of 4 pixels"):
        patches.layout_of(config, {}, (1, 3, 8, 10))


def test_patches_that_lie_in_no_known_way_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def patchify(self: Any, images: torch.Tensor, patch_size: int) -> Any:
        return images.flatten().flip(0).view(1, -1, 12), 0, 0

    monkeypatch.setattr(patches, "_cutter", lambda _: patchify)
    config = SimpleNamespace(model_type="other", vision_config=vision())
    with pytest.raises(BuildError, match="other: its image processor cuts images in a way that is"):
        patches.layout_of(config, {}, (1, 3, 8, 8))


def test_an_image_processor_without_a_layout_is_refused() -> None:
    config = SimpleNamespace(model_type="llava_next", vision_config=vision())
    with pytest.raises(BuildError, match="LlavaNextImageProcessor has no method patchify"):
        patches.layout_of(config, {}, (1, 3, 8, 8))
