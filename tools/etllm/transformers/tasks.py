"""Tasks by transformers' names: the classes that do them, and the methods of their programs."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from etbuild import BuildError, ModelSpec, Options
from transformers.models.auto import modeling_auto

from etllm.transformers import decoding, forward, multimodal, seq2seq
from etllm.transformers.pretrained import Checkpoint, with_method

_DETECTED = ("logits", "pred_boxes")
_SEGMENTED = ("logits", "pred_masks", "class_queries_logits", "masks_queries_logits")
_STATES = ("last_hidden_state", "text_embeds", "image_embeds")
_SEQ2SEQ = ("SEQ_TO_SEQ_CAUSAL_LM",)

Make = Callable[[Checkpoint, Any, Options, tuple[str, ...]], ModelSpec]


@dataclass(frozen=True)
class Task:
    """A task.

    Attributes:
      classes: tables of transformers that have classes for it, the preferred one first:
        "MASKED_LM" is MODEL_FOR_MASKED_LM_MAPPING_NAMES.
      make: makes the program's methods of a model.
      outputs: names of what a model returns that the program returns, in their order.
    """

    classes: tuple[str, ...]
    make: Make
    outputs: tuple[str, ...] = ("logits",)


def _recognition(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """Speech to text: with a decoder, or a character for each frame (CTC)."""
    if model.config.is_encoder_decoder:
        make: Make = seq2seq.build
    elif with_method(model, "get_audio_features") is not None:
        make = multimodal.of_recordings
    else:
        make = forward.of_audio
    return make(checkpoint, model, options, outputs)


def _text_to_text(
    checkpoint: Checkpoint, model: Any, options: Options, outputs: tuple[str, ...]
) -> ModelSpec:
    """Text to text; transformers counts some decoders that read recordings among these."""
    make = seq2seq.build if model.config.is_encoder_decoder else multimodal.of_recordings
    return make(checkpoint, model, options, outputs)


# In the order in which a class is looked for, if a target names no task.
TASKS: dict[str, Task] = {
    # Before text-generation, which has some of its classes, too.
    "image-text-to-text": Task(("IMAGE_TEXT_TO_TEXT",), multimodal.of_images),
    "text-generation": Task(("CAUSAL_LM",), decoding.build),
    "audio-text-to-text": Task(("MULTIMODAL_LM",), multimodal.of_recordings),
    "automatic-speech-recognition": Task(("SPEECH_SEQ_2_SEQ", "CTC"), _recognition),
    "text2text-generation": Task(_SEQ2SEQ, _text_to_text),
    "fill-mask": Task(("MASKED_LM",), forward.of_text),
    "text-classification": Task(("SEQUENCE_CLASSIFICATION",), forward.of_text_pair),
    "token-classification": Task(("TOKEN_CLASSIFICATION",), forward.of_text),
    "question-answering": Task(
        ("QUESTION_ANSWERING",),
        forward.of_text_pair,
        ("start_logits", "end_logits", "question_answering_score"),
    ),
    "image-classification": Task(("IMAGE_CLASSIFICATION",), forward.of_image),
    "object-detection": Task(("OBJECT_DETECTION",), forward.of_image, _DETECTED),
    "image-segmentation": Task(
        (
            "SEMANTIC_SEGMENTATION",
            "IMAGE_SEGMENTATION",
            "INSTANCE_SEGMENTATION",
            "UNIVERSAL_SEGMENTATION",
        ),
        forward.of_image,
        _SEGMENTED,
    ),
    "depth-estimation": Task(("DEPTH_ESTIMATION",), forward.of_image, ("predicted_depth",)),
    "image-to-image": Task(("IMAGE_TO_IMAGE",), forward.of_image, ("reconstruction",)),
    "zero-shot-image-classification": Task(
        ("ZERO_SHOT_IMAGE_CLASSIFICATION",),
        forward.of_image_and_text,
        ("logits_per_image", "logits_per_video"),
    ),
    "audio-classification": Task(("AUDIO_CLASSIFICATION",), forward.of_audio),
    "audio-frame-classification": Task(("AUDIO_FRAME_CLASSIFICATION",), forward.of_audio),
    "feature-extraction": Task(("",), forward.of_any, _STATES),
    "sentence-similarity": Task(("",), forward.of_sentence, ("last_hidden_state",)),
}


def choose(checkpoint: Checkpoint, name: str) -> tuple[str, Task, str]:
    """The task of a target, and the class that does it.

    Args:
      checkpoint: the model's.
      name: the task; empty: what the architecture in config.json does.

    Returns:
      The task's name, the task, and the name of a class of transformers.

    Raises:
      BuildError: the task is unknown, the configuration says none, or transformers has no class of
        this architecture for it.
    """
    if not name:
        return _of_architecture(checkpoint)
    if name not in TASKS:
        close = difflib.get_close_matches(name, TASKS, n=1)
        raise BuildError(
            f'{checkpoint.label}: task: got "{name}", expected one of {", ".join(sorted(TASKS))}.',
            f'Did you mean "{close[0]}"?' if close else "Declare other tasks with et_model.",
        )
    classes = classes_of(TASKS[name], checkpoint.config.model_type)
    if not classes:
        model_type = checkpoint.config.model_type
        possible = [task for task in TASKS if classes_of(TASKS[task], model_type)]
        raise BuildError(
            f'{checkpoint.label}: task: got "{name}", which transformers has no class for in the '
            f'architecture "{model_type}". Its tasks: {", ".join(sorted(possible)) or "none"}.',
            "Take one of these, or a checkpoint of another architecture.",
        )
    named = [each for each in classes if each in checkpoint.architectures]
    return name, TASKS[name], (named or classes)[0]


def _of_architecture(checkpoint: Checkpoint) -> tuple[str, Task, str]:
    """The first task that a class of config.json's `architectures` does."""
    for task in TASKS:
        for class_name in classes_of(TASKS[task], checkpoint.config.model_type):
            if class_name in checkpoint.architectures:
                return task, TASKS[task], class_name
    if checkpoint.architectures:
        known = f"{', '.join(checkpoint.architectures)}, which does none of these tasks"
    else:
        known = "none"
    raise BuildError(
        f"{checkpoint.label}: config.json: architectures: got {known}, expected a class whose task "
        f"is one of {', '.join(sorted(TASKS))}.",
        "Give the target a task.",
    )


def classes_of(task: Task, model_type: str) -> list[str]:
    """Names of transformers' classes that do a task in an architecture, the preferred one first."""
    names: list[str] = []
    for table in task.classes:
        name = f"MODEL_FOR_{table}_MAPPING_NAMES" if table else "MODEL_MAPPING_NAMES"
        entry = getattr(modeling_auto, name).get(model_type, ())
        names += [entry] if isinstance(entry, str) else entry
    return names
