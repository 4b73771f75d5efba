"""Checkpoints that et_transformers takes, and the messages for others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from architectures import checkpoint, context
from etbuild import BuildError
from etbuild.options import Options
from etllm.transformers import entry
from etllm.transformers.decoding import Buffers, empty_cache
from etllm.transformers.inputs import image_size
from etllm.transformers.pretrained import Checkpoint
from etllm.transformers.tasks import TASKS
from safetensors.torch import load_file, save_file
from transformers import AutoConfig


def changed_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    checkpoint("bert", "BertForMaskedLM", tmp_path)
    return tmp_path


def test_a_task_chooses_the_class(bert: Path) -> None:
    spec = entry.build(context(bert, task="feature-extraction"))
    assert type(spec.methods["forward"].module.model).__name__ == "BertModel"


def test_weights_are_the_checkpoints(bert: Path) -> None:
    state = load_file(bert / "model.safetensors")
    model = entry.build(context(bert)).methods["forward"].module.model
    name = "bert.encoder.layer.0.output.dense.weight"
    assert torch.equal(dict(model.named_parameters())[name], state[name])


def test_half_weights_become_float32(bert: Path) -> None:
    path = bert / "model.safetensors"
    save_file({n: t.to(torch.bfloat16) for n, t in load_file(path).items()}, path)
    changed_config(bert, dtype="bfloat16")
    model = entry.build(context(bert)).methods["forward"].module.model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_random_weights_are_those_of_the_seed(bert: Path) -> None:
    (bert / "model.safetensors").unlink()

    def weights(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        spec = entry.build(context(bert, random_weights="true"))
        return next(spec.methods["forward"].module.parameters())

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def test_metadata_say_how_to_prepare_images(tmp_path: Path) -> None:
    checkpoint("vit", "ViTForImageClassification", tmp_path)
    changed_config(tmp_path, id2label={"1": "dog", "0": "cat"}, label2id={"cat": 0, "dog": 1})
    (tmp_path / "preprocessor_config.json").write_text(
        json.dumps({"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.2, 0.2]})
    )
    assert entry.build(context(tmp_path)).constant_methods == {
        "get_image_mean": [0.5, 0.4, 0.3],
        "get_image_size": [32, 32],
        "get_image_std": [0.2, 0.2, 0.2],
        "get_labels": ["cat", "dog"],
        "get_task": "image-classification",
    }


_PLAIN = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.25, 0.4]}
_MEAN, _STD = [0.5, 0.4, 0.3], [0.2, 0.25, 0.4]
_CLASS = [0.5] * 3


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("values", "mean", "deviation"),
    [
        (_PLAIN, _MEAN, _STD),
        (_PLAIN | {"do_normalize": True, "do_rescale": True}, _MEAN, _STD),
        (_PLAIN | {"do_normalize": False}, None, None),
        # Scales of the class, and one number for all channels.
        ({"image_processor_type": "ViTImageProcessor"}, _CLASS, _CLASS),
        ({"image_mean": 0.5, "image_std": [0.2, 0.25, 0.4]}, _CLASS, _STD),
        # Of pixels that are not made 0 to 1.
        (_PLAIN | {"do_rescale": False}, [v / 255 for v in _MEAN], [v / 255 for v in _STD]),
        (_PLAIN | {"rescale_factor": 1 / 127.5}, [v / 2 for v in _MEAN], [v / 2 for v in _STD]),
        ({"do_rescale": False, "do_normalize": False}, [0.0] * 3, [1 / 255] * 3),
    ],
)
@pytest.mark.parametrize("name", ["preprocessor_config.json", "processor_config.json"])
def test_pictures_are_normalized_as_the_processor_does(
    name: str, values: dict, mean: list[float] | None, deviation: list[float] | None, tmp_path: Path
) -> None:
    checkpoint("vit", "ViTForImageClassification", tmp_path)
    whole = {"image_processor": values} if name.startswith("processor") else values
    (tmp_path / name).write_text(json.dumps(whole))
    found = entry.build(context(tmp_path)).constant_methods
    assert found.get("get_image_mean") == (mean and pytest.approx(mean))
    assert found.get("get_image_std") == (deviation and pytest.approx(deviation))


def test_without_a_processor_nothing_is_said(tmp_path: Path) -> None:
    checkpoint("vit", "ViTForImageClassification", tmp_path)
    assert "get_image_mean" not in entry.build(context(tmp_path)).constant_methods


_SQUARE = {"height": 48, "width": 64}


@pytest.mark.parametrize(
    ("architecture", "values", "size"),
    [
        ("vit", {"size": _SQUARE}, (48, 64)),
        ("vit", {"size": 48}, (48, 48)),
        ("vit", {"size": [48, 64]}, (48, 64)),
        ("vit", {"size": {"shortest_edge": 48}}, (48, 48)),
        ("vit", {"size": {"shortest_edge": 48, "longest_edge": 90}}, (48, 48)),
        ("vit", {"size": _SQUARE, "do_resize": False}, (32, 32)),
        ("vit", {"size": {"longest_edge": 48}}, (32, 32)),
        ("clip", {"size": {"shortest_edge": 64}, "crop_size": _SQUARE}, (48, 64)),
        ("clip", {"size": 64, "crop_size": 48, "do_center_crop": False}, (64, 64)),
        # Its class does not crop unless the file says so.
        ("beit", {"size": _SQUARE, "crop_size": 224}, (48, 64)),
        ("beit", {"size": _SQUARE, "crop_size": 40, "do_center_crop": True}, (40, 40)),
        ("detr", {"size": {"shortest_edge": 64}, "pad_size": _SQUARE}, (48, 64)),
        # Edges that are numbers of pixels in all.
        ("qwen2_vl", {"size": {"shortest_edge": 3136, "longest_edge": 12845056}}, (224, 224)),
        ("qwen2_vl", {"min_pixels": 3136, "max_pixels": 56 * 56}, (56, 56)),
        ("qwen2_vl", {"min_pixels": 300 * 300, "max_pixels": 12845056}, (308, 308)),
    ],
)
def test_sizes_of_pictures_follow_the_processor(
    architecture: str, values: dict, size: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    config = AutoConfig.for_model(architecture)
    if architecture != "qwen2_vl":
        config.image_size = 32
    opened = Checkpoint(tmp_path, "//m:net", config, ())
    assert image_size(opened, Options({}, "//m:net")) == size


@pytest.mark.parametrize("dtype", ["int8", "uint8", "float8_e4m3fn", "float8_e5m2"])
def test_quantized_tensors_are_not_taken_for_values(dtype: str, bert: Path) -> None:
    path = bert / "model.safetensors"
    name = "bert.encoder.layer.0.output.dense.weight"
    weights = load_file(path)
    weights[name] = weights[name].to(getattr(torch, dtype))
    # An old mask, which is no weight.
    weights["bert.embeddings.position_ids"] = torch.arange(48).view(1, -1)
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(BuildError, match=rf'tensor "{name}": got \w+, expected one of F32, F16'):
        entry.build(context(bert))


def test_lengths_are_fixed_if_asked_for(bert: Path) -> None:
    method = entry.build(context(bert, dynamic="false", max_length="20")).methods["forward"]
    assert method.dynamic_shapes is None
    assert method.example_inputs[0].shape == (1, 20)


def _remove_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("change", "args", "message"),
    [
        (
            lambda folder: None,
            {"task": "image-clasification"},
            r'//m:net: task: got "image-clasification", expected one of .*\nDid you mean "image-',
        ),
        (
            lambda folder: None,
            {"task": "image-classification"},
            r'got "image-classification", which transformers has no class for in the architecture '
            r'"bert"\. Its tasks: feature-extraction, fill-mask, .*\nTake one of these',
        ),
        (
            lambda folder: None,
            {"task": "text-classification"},
            r"got no weights for bert\.pooler\.dense\.bias, .*classifier\.bias.* of "
            r"BertForSequenceClassification, expected all that the outputs depend on\. config"
            r"\.json says that the weights are of BertForMaskedLM\.\nTake a checkpoint that was "
            r"trained for the task",
        ),
        (
            lambda folder: changed_config(folder, architectures=None),
            {},
            r"config\.json: architectures: got none, expected a class whose task is one of .*\n"
            r"Give the target a task\.",
        ),
        (
            lambda folder: changed_config(folder, architectures=["BertForNextSentencePrediction"]),
            {},
            r"got BertForNextSentencePrediction, which does none of these tasks, expected",
        ),
        (
            lambda folder: changed_config(folder, auto_map={"AutoModel": "modeling_x.X"}),
            {},
            r"auto_map: the architecture is Python code in the checkpoint \(modeling_x\.X\), which "
            r"is not run\.\nTake a checkpoint of an architecture that transformers has",
        ),
        (
            lambda folder: changed_config(folder, quantization_config={"quant_method": "gptq"}),
            {},
            r'quantization_config: got weights that are quantized with "gptq", expected floating-',
        ),
        (
            lambda folder: changed_config(folder, model_type="nobodys"),
            {},
            r'model_type: got "nobodys", expected one of the \d+ architectures of transformers',
        ),
        (
            lambda folder: (folder / "config.json").write_text("{"),
            {},
            r"config\.json: not JSON: .*\nGive all files of the checkpoint",
        ),
        (
            lambda folder: (folder / "config.json").unlink(),
            {},
            r"checkpoint: got 0 files config\.json, expected one\.",
        ),
        (_remove_weights, {}, r"checkpoint: got no weights, expected \.safetensors files beside"),
        (
            _truncate,
            {},
            r"model\.safetensors: expected a complete safetensors file; found \d",
        ),
        (
            lambda folder: changed_config(folder, hidden_size=64),
            {},
            r'safetensors: tensor "bert\.[\w.]+": got shape \(32,\), expected \(64,\)\.',
        ),
        (
            lambda folder: None,
            {"max_length": "4000"},
            r"max_length: got 4000, expected at most 48, the positions that the model has\.",
        ),
        (lambda folder: None, {"max_lenght": "40"}, r'unknown option "max_lenght"'),
    ],
)
def test_messages(change, args: dict[str, str], message: str, bert: Path) -> None:
    change(bert)
    with pytest.raises(BuildError, match=message):
        entry.build(context(bert, **args))


def test_sizes_of_images_are_two_numbers(tmp_path: Path) -> None:
    checkpoint("vit", "ViTForImageClassification", tmp_path)
    with pytest.raises(BuildError, match='image_size: got "32", expected height and width in'):
        entry.build(context(tmp_path, image_size="32"))


def test_decoders_without_a_cache_of_transformers_are_refused(tmp_path: Path) -> None:
    """It keeps a state that the caller hands on."""
    config = AutoConfig.for_model("rwkv", hidden_size=32, num_hidden_layers=2, vocab_size=9)
    config.save_pretrained(tmp_path)
    target = context(tmp_path, random_weights="true", task="text-generation", max_length="8")
    with pytest.raises(BuildError, match="rwkv: layer 0 keeps nothing, expected keys and"):
        entry.build(target)


def test_states_are_refused_where_a_call_reads_several_tokens(tmp_path: Path) -> None:
    """As in decoders behind an encoder."""
    model = checkpoint("mamba", "MambaForCausalLM", tmp_path)
    cache = empty_cache(model.config, 8)
    model(torch.zeros(1, 1, dtype=torch.long), cache_params=cache, use_cache=True)
    with pytest.raises(BuildError, match=r"mamba: layer 0 keeps a state of its own \(LinearAtt"):
        Buffers(model.config, 8).allocate(cache)


def test_each_task_has_classes_and_a_name_that_transformers_knows() -> None:
    from etllm.transformers.tasks import modeling_auto

    for task in TASKS.values():
        for table in task.classes:
            name = f"MODEL_FOR_{table}_MAPPING_NAMES" if table else "MODEL_MAPPING_NAMES"
            assert getattr(modeling_auto, name)
