"""The entry point of et_transformers' models: a checkpoint becomes a ModelSpec."""

from __future__ import annotations

import dataclasses

from etbuild import ModelContext, ModelSpec, Options

from etllm.transformers import pretrained, tasks

_OPTIONS = (
    "dynamic",
    "image_size",
    "max_length",
    "prefill_length",
    "random_weights",
    "samples",
    "task",
)


def build(ctx: ModelContext) -> ModelSpec:
    """Called while a program is lowered.

    Args:
      ctx: data: the files of a checkpoint. args: `task`; `max_length` and `prefill_length` in
        tokens; `samples` of audio; `image_size` as "HxW"; `dynamic`, whether lengths may vary;
        `random_weights`.

    Returns:
      The methods of the task, with its metadata.

    Raises:
      BuildError: a file or an argument is wrong, or the model does not do the task.
    """
    options = Options(ctx.args, ctx.label)
    options.only(*_OPTIONS)
    with pretrained.opened(ctx) as checkpoint:
        name, task, class_name = tasks.choose(checkpoint, options.text("task", ""))
        loaded = checkpoint.load(class_name, options.boolean("random_weights", False))
        model = pretrained.exportable(loaded)
        spec = task.make(checkpoint, model, options, task.outputs)
        checkpoint.check_unused(loaded, spec)
    metadata = {"get_task": name, **_labels(model.config), **spec.constant_methods}
    return dataclasses.replace(spec, constant_methods=metadata)


def _labels(config: object) -> dict[str, object]:
    """The names of a classifier's classes."""
    labels = getattr(config, "id2label", None) or {}
    # What a configuration has that says nothing of them.
    if set(labels.values()) <= {"LABEL_0", "LABEL_1"}:
        return {}
    return {"get_labels": [str(labels[key]) for key in sorted(labels)]}
