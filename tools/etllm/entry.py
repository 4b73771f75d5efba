"""The entry point of et_llm's models: a checkpoint and a YAML file become a ModelSpec."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from etbuild import BuildError, ModelContext, ModelSpec, Options, language_methods
from executorch.examples.models.llama.llama_transformer import Transformer
from torch import nn

from etllm import (
    decoder,
    embedding,
    lora,
    method_adapters,
    methods,
    source_transforms,
    variants,
)
from etllm.architecture import Architecture
from etllm.checkpoint import Checkpoint, open_checkpoint
from etllm.hf_config import Sizes
from etllm.replacements import FAMILIES, NotReplaced
from etllm.settings import Settings

# Files of the adapter that the whole model has.
_OF_MODEL = method_adapters.Files(lora.CONFIG, lora.WEIGHTS)
_SDPA = "model.use_sdpa_with_kv_cache"
# Backends for which upstream's LlmConfig has no section.
_WITHOUT_SECTION = ("mps", "portable")


def build(ctx: ModelContext) -> ModelSpec:
    """Called while a program is lowered.

    Args:
      ctx: data: the checkpoint, the YAML file, and for an adapter its two files. args: `backends`,
        those of the target whose recipe the YAML file chooses, with commas; `layers`, how many of
        the first layers, default all.

    Returns:
      The model with its metadata methods: with layers of et_llm in place of transformers' where
      these have all that the checkpoint needs (`etllm.replacements`).

    Raises:
      BuildError: a file or a setting is wrong; the message names the file, the line and the key.
    """
    try:
        opened = _open(ctx)
    except NotReplaced as lack:
        return _by_modeling_code(ctx, lack)
    settings = opened.settings
    arch = opened.checkpoint.architecture
    windows = settings.llm.model.local_global_attention
    if windows:
        arch = _windowed(settings, arch, windows)
    checkpoint = dataclasses.replace(opened.checkpoint, architecture=arch)
    modules = _modules(ctx, opened, checkpoint)
    program_methods = methods.make(opened.shapes, modules, arch.args.vocab_size)
    args = arch.args
    sizes = methods.Sizes(args.max_seq_len, args.max_context_len, args.vocab_size, args.n_layers)
    metadata = methods.metadata(settings, arch.metadata, sizes, opened.shapes)
    return ModelSpec(program_methods, metadata, notes=_notes(ctx, opened))


def _notes(ctx: ModelContext, opened: _Opened) -> tuple[str, ...]:
    """Sentences for the report: on attention, and on keys that change nothing."""
    settings = opened.settings
    context = settings.llm.export.max_context_length
    backends = _backends(ctx)
    notes = [
        f"Attention: upstream's own, as {opened.keys[0]} asks for it. Nobody measured it."
        if opened.keys
        else variants.note(variants.chosen(backends), backends, context)
    ]
    if settings.value(_SDPA):
        notes.append(
            f"{settings.file.position(_SDPA)}: {_SDPA} changes nothing: layers attend as said, "
            "and need no operator of upstream's for it."
        )
    return tuple(notes)


def _by_modeling_code(ctx: ModelContext, lack: NotReplaced) -> ModelSpec:
    """The model of a checkpoint that needs what layers of et_llm lack."""
    settings = _settings(ctx)
    settings.check_without_replacements(lack.feature)
    adapters = sorted(name for name in ctx.files if lora.is_given([name]))
    if adapters:
        raise BuildError(
            f"{ctx.label}: adapters: got {adapters[0]}, expected nothing: adapters are for "
            f"layers of et_llm, and this model has those of transformers ({lack.feature}).",
            "Merge the adapter into the checkpoint, and remove it from the target.",
        )
    # Targets whose checkpoints need none of it do not have its packages.
    try:
        from etllm.transformers import language
    except ModuleNotFoundError as error:
        raise BuildError(
            f"{ctx.label}: {lack.feature}: layers of et_llm do not have it; those of "
            f"transformers do, and the target lacks its packages ({error}).",
            'Write packages = ["@executorch_transformers//:packages"], and in deps '
            '"@rules_executorch//tools/etllm/transformers", as et_llm does.',
        ) from None

    layers = Options(ctx.args, ctx.label).integer("layers", 0, minimum=1)
    note = (
        "The model has the layers of transformers: those of et_llm, which are faster, lack what it "
        f"needs ({lack.feature})."
    )
    spec = language.build(ctx, settings, method_shapes(settings), layers)
    return dataclasses.replace(spec, notes=(*spec.notes, note))


def adapter(ctx: ModelContext) -> dict[str, torch.Tensor | None]:
    """The adapter_entry_point of a model with an adapter; reads no weights of the checkpoint.

    Args:
      ctx: as for `build`.

    Returns:
      The adapter's tensors by their names in the module that `build` makes; None for those in
      the file that it does not use.

    Raises:
      BuildError: as `build`.
    """
    opened = _open(ctx)
    arch = opened.checkpoint.architecture
    return lora.named_tensors(_adapter(ctx, decoder.construct(arch.args), arch))


@dataclass(frozen=True)
class _Opened:
    """The contents of a target's files, without weights.

    Attributes:
      settings: the YAML file.
      shapes: how many tokens each method reads.
      keys: source transforms that the YAML file asks for.
      adapters: files of the adapter of each method that has one.
      checkpoint: the checkpoint.
    """

    settings: Settings
    shapes: Mapping[str, methods.Shape]
    keys: list[str]
    adapters: Mapping[str, method_adapters.Files]
    checkpoint: Checkpoint


def _open(ctx: ModelContext) -> _Opened:
    options = Options(ctx.args, ctx.label)
    settings = _settings(ctx)
    shapes = method_shapes(settings)
    adapters = method_adapters.files_by_method(ctx, settings)
    keys = source_transforms.requested(settings)
    export = settings.llm.export
    sizes = Sizes(
        context=export.max_context_length,
        most=max(shape.most for shape in shapes.values()),
        layers=options.integer("layers", 0, minimum=1),
    )
    checkpoint = open_checkpoint(ctx, sizes)
    arch = checkpoint.architecture
    _check_family(settings, arch)
    if keys:
        source_transforms.check_fits(arch, settings, keys)
    return _Opened(settings, shapes, keys, adapters, checkpoint)


def _settings(ctx: ModelContext) -> Settings:
    """The YAML file, as far as the target's other arguments and files can tell what is wrong."""
    options = Options(ctx.args, ctx.label)
    options.only("backends", "layers", method_adapters.OPTION)
    settings = read_settings(ctx.files, ctx.label)
    check_backends(settings, _backends(ctx), ctx.label)
    _check_files(settings, ctx)
    return settings


def _backends(ctx: ModelContext) -> list[str]:
    named = Options(ctx.args, ctx.label).text("backends", "")
    return [backend for backend in named.split(",") if backend]


def _adapter(
    ctx: ModelContext,
    model: Transformer,
    arch: Architecture,
    files: method_adapters.Files = _OF_MODEL,
) -> lora.Adapter:
    paths = ctx.file(files.config), ctx.file(files.weights)
    linears = lora.FUSED if FAMILIES[arch.family].fused else lora.LINEARS
    return lora.load_adapter(*paths, model, arch.depth, arch.halves, linears)


def read_settings(files: Mapping, label: str) -> Settings:
    """The YAML file among a target's files.

    Args:
      files: paths by name, as in ModelContext.
      label: the target, for messages.

    Raises:
      BuildError: there isn't exactly one, or something in it is wrong.
    """
    names = sorted(name for name in files if name.endswith((".yaml", ".yml")))
    if len(names) != 1:
        raise BuildError(
            f"{label}: config: got {len(names)} YAML files"
            f"{': ' if names else ''}{', '.join(names)}, expected one.",
            "Give et_llm the model's configuration in config, and no other .yaml file.",
        )
    return Settings.read(files[names[0]], names[0])


def check_backends(settings: Settings, backends: list[str], label: str) -> None:
    """Fails where the file enables other backends than those that the target has programs for."""
    enabled = settings.enabled_backends()
    for name in enabled:
        if name not in backends:
            raise settings.error(
                f"backend.{name}.enabled",
                f"false: {label} has no program for {name} whose recipe the file chooses",
                f'Add "{name}" to backends of the target, or disable it here.',
            )
    for name in backends:
        if name not in _WITHOUT_SECTION and name not in enabled:
            raise settings.error(
                f"backend.{name}.enabled",
                f"true: {label} has a program for it",
                f'Write it in the file, or remove "{name}" from backends of the target.',
            )
    if not backends:
        for key in ("quantization.qmode", "quantization.pt2e_quantize"):
            if settings.value(key) is not None:
                raise settings.error(
                    key,
                    f"nothing: all programs of {label} have recipes of their own",
                    "Remove the key, or give the target backends instead of recipes.",
                )


def method_shapes(settings: Settings) -> dict[str, methods.Shape]:
    """The program's methods, and how many tokens each reads.

    Raises:
      BuildError: a name that runners don't know, or a length that doesn't fit; with its line.
    """
    export, several = settings.llm.export, settings.llm.multimethod
    is_dynamic = settings.llm.model.enable_dynamic_shape
    most = export.max_seq_length
    if not several.methods:
        return {"forward": methods.Shape(most, dynamic=True) if is_dynamic else methods.Shape(1)}
    if len(several.methods) > 1 and not several.share_mutable_buffers:
        raise settings.error(
            "multimethod.share_mutable_buffers",
            "true: without it each method has a KV cache of its own",
            "Add it to the section multimethod.",
        )
    shapes: dict[str, methods.Shape] = {}
    for i, method in enumerate(several.methods):
        key = f"multimethod.methods.{i}"
        name, length = method.method_name, method.export_seq_len
        parsed = language_methods.parse(name)
        has_adapter = method.lora_config is not None
        if not parsed or has_adapter != bool(parsed.adapter):
            before = 'an adapter\'s name and "_" before ' if has_adapter else ""
            raise settings.error(
                f"{key}.method_name",
                f"{before}forward, prefill, prefill_N (exactly N tokens) or decode",
            )
        if name in shapes:
            raise settings.error(f"{key}.method_name", "another name: it is there twice")
        exact = parsed.exact
        if exact is None and not is_dynamic:
            raise settings.error(
                f"{key}.method_name",
                "prefill_N or decode: model.enable_dynamic_shape is false",
            )
        if length is not None and length != exact and not (exact is None and 2 <= length <= most):
            numbers = str(exact) if exact else f"2 to export.max_seq_length ({most})"
            raise settings.error(f"{key}.export_seq_len", numbers)
        if exact is not None and exact > export.max_context_length:
            raise settings.error(
                f"{key}.method_name",
                f"at most export.max_context_length ({export.max_context_length}) tokens",
            )
        shapes[name] = methods.Shape(exact or length or most, exact is None, of=parsed.adapter)
    for of in sorted({""} | {shape.of for shape in shapes.values()}):
        names = [name.removeprefix(f"{of}_") for name, shape in shapes.items() if shape.of == of]
        if not language_methods.converse(names):
            named = f' of "{of}_"' if of else ""
            raise settings.error(
                "multimethod.methods",
                f"forward; or decode and a prefill{named}: else no runner can read a prompt and "
                "answer",
            )
    return shapes


def _check_files(settings: Settings, ctx: ModelContext) -> None:
    """Paths of the file must be those of the target's files, as far as it gives any."""
    for key in ("base.checkpoint", "base.params"):
        path = settings.value(key)
        names = {name.rsplit("/", 1)[-1] for name in ctx.files}
        if path and path.rstrip("/").rsplit("/", 1)[-1] not in names:
            raise settings.error(
                key,
                f"one of the target's files: {', '.join(sorted(names))}",
                f"Give the file to {ctx.label} in checkpoint, or remove the key.",
            )


def _check_family(settings: Settings, arch: Architecture) -> None:
    key = "base.model_class"
    classes = FAMILIES[arch.family].classes
    if settings.file.has(key) and settings.llm.base.model_class.value not in classes:
        named = ", ".join(classes) if classes else "no model_class at all"
        raise settings.error(
            key,
            f'{named}: the checkpoint is of the kind "{arch.family}"',
            "Correct or remove it: the checkpoint says what the model is.",
        )


def _windowed(settings: Settings, arch: Architecture, windows: list[int]) -> Architecture:
    """A model whose layers see as far as the file says, in turns."""
    key = "model.local_global_attention"
    if any(window < 0 for window in windows):
        raise settings.error(key, "numbers of at least 0; 0 is a layer that sees everything")
    if any(layer.window for layer in arch.layers):
        raise settings.error(key, "nothing: the model's layers have sliding windows already")
    layers = tuple(
        dataclasses.replace(layer, window=windows[i % len(windows)])
        for i, layer in enumerate(arch.layers)
    )
    return dataclasses.replace(arch, layers=layers)


def _modules(ctx: ModelContext, opened: _Opened, checkpoint: Checkpoint) -> dict[str, nn.Module]:
    """The module of each method; all of them have the same weights and the same KV cache."""
    model = _module(ctx, opened.settings, checkpoint, opened.keys)
    adapters = {
        files: _adapter(ctx, model.transformer, checkpoint.architecture, files)
        for files in opened.adapters.values()
    }
    dtype = opened.settings.dtype()
    made = method_adapters.modules(model, adapters, dtype)
    return {name: made[opened.adapters.get(name)].eval() for name in opened.shapes}


def _module(
    ctx: ModelContext, settings: Settings, checkpoint: Checkpoint, keys: list[str]
) -> nn.Module:
    """The module of all methods without an adapter of their own."""
    arch = checkpoint.architecture
    arch.args.generate_full_logits = settings.llm.debug.generate_full_logits
    prefixes = variants.chosen(_backends(ctx)) == variants.PREFIX
    model = source_transforms.construct(arch) if keys else decoder.construct(arch.args, prefixes)
    checkpoint.check_unused([name for name, _ in model.named_parameters()])
    make = embedding.maker(
        settings,
        arch.args.dim,
        lambda shape: checkpoint.weight(decoder.EMBEDDING, shape),
        checkpoint.rows8,
    )
    decoder.assign(model, checkpoint.weight, make, checkpoint.stored)
    if lora.is_given(ctx.files) and not method_adapters.is_asked(ctx):
        lora.attach(model, _adapter(ctx, model, arch))
    if keys:
        model = source_transforms.transform(model, arch, keys, settings)
        return source_transforms.UpstreamCausalLM(model)
    causal = decoder.CausalLM(decoder.finish(model, arch), arch)
    dtype = settings.dtype()
    return causal if dtype == torch.float32 else decoder.cast(causal, dtype)
