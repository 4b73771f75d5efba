"""A checkpoint of transformers among a target's files: its configuration, class and weights."""

from __future__ import annotations

import inspect
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Before the import: nothing may be asked of a hub.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch  # noqa: E402
import transformers  # noqa: E402
from etbuild import BuildError, ModelContext, ModelSpec  # noqa: E402
from etbuild.checkpoint import check_archive  # noqa: E402
from etbuild.dtypes import FLOATS  # noqa: E402
from etbuild.errors import listed  # noqa: E402
from etlower import stored_weights  # noqa: E402
from etlower.stored_weights import StoredWeight  # noqa: E402
from torch.utils import _pytree as pytree  # noqa: E402
from torchao.utils import TorchAOBaseTensor  # noqa: E402

from etllm import torchao_tensors  # noqa: E402
from etllm.json_values import JsonValues  # noqa: E402
from etllm.tensor_files import TensorFiles, open_tensors  # noqa: E402

# A build has nobody who watches bars, and `load` reports what is missing.
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

_CONFIG = "config.json"
_ONE_FILE, _INDEX = "model.safetensors", "model.safetensors.index.json"
_WEIGHTS = (".safetensors", ".bin")
_AGAIN = "Give all files of the checkpoint, of one revision."
_UNQUANTIZED = "Take the checkpoint that these were made of; the target's recipe quantizes it."
_OF_TORCH = {getattr(torch, dtype): name for name, dtype in FLOATS.items()}


@dataclass(frozen=True)
class Loaded:
    """A model with a checkpoint's weights.

    Attributes:
      model: of transformers.
      missing: names of its parameters that the checkpoint does not have.
      unused: names in the checkpoint that the model does not have.
    """

    model: Any
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint's files by the names that transformers looks for, in one folder.

    Attributes:
      folder: has links to the files.
      label: the target, for messages.
      config: config.json as transformers reads it.
      architectures: names of model classes that config.json says the weights are of; may be empty.
    """

    folder: Path
    label: str
    config: Any
    architectures: tuple[str, ...]

    def optional_json(self, name: str) -> dict[str, Any]:
        """A JSON file of the checkpoint; empty if it is not there."""
        path = self.folder / name
        return _read_json(path, self.label) if path.exists() else {}

    def load(self, class_name: str, random: bool) -> Loaded:
        """The model with its weights as float32.

        Args:
          class_name: a class of transformers.
          random: whether the weights are random instead, by torch's seed.

        Raises:
          BuildError: there are no weights, or they are damaged or do not fit the class.
        """
        model_class = getattr(transformers, class_name)
        if random:
            with self._explained(f"{class_name} cannot be constructed"):
                return Loaded(model_class(self.config).float().eval())
        if not any(path.suffix in _WEIGHTS for path in self.folder.iterdir()):
            raise BuildError(
                f"{self.label}: checkpoint: got no weights, expected .safetensors files beside "
                f"{_CONFIG}.",
                "Add them to checkpoint; random_weights = True does without them in tests.",
            )
        files = self._files()
        with self._explained(f"the weights cannot be loaded into {class_name}"):
            model, loaded = model_class.from_pretrained(
                self.folder,
                config=self.config,
                dtype=torch.float32,
                ignore_mismatched_sizes=True,
                local_files_only=True,
                output_loading_info=True,
                trust_remote_code=False,
            )
        self._check_shapes(loaded["mismatched_keys"], files)
        self._check_types(model)
        self._keep_integers(model)
        missing, unused = (sorted(loaded[f"{kind}_keys"]) for kind in ("missing", "unexpected"))
        return Loaded(model.eval(), tuple(missing), tuple(unused))

    def _files(self) -> dict[str, str]:
        """The file of each tensor; fails for a damaged file, and for others than the index says."""
        paths = {path.name: path for path in sorted(self.folder.iterdir())}
        for name, path in paths.items():
            if path.suffix == ".bin":
                check_archive(path, f"{self.label}: {name}")
        # As transformers chooses among the files.
        if _ONE_FILE in paths:
            paths = {_ONE_FILE: paths[_ONE_FILE]}
        elif _INDEX not in paths:
            return {}
        index = JsonValues.read(paths[_INDEX], _INDEX) if _INDEX in paths else None
        if index is not None and not index.given("metadata"):
            raise index.error("metadata", "an object, which transformers reads", _AGAIN)
        tensors = {name: path for name, path in paths.items() if path.suffix == ".safetensors"}
        return TensorFiles(tensors, index).file_by_tensor

    def _check_shapes(self, wrong: Any, files: Mapping[str, str]) -> None:
        """Fails for tensors of other shapes than config.json says; `wrong` are transformers'."""
        for name, stored, expected in sorted(wrong, key=str):
            where = next((f for n, f in sorted(files.items()) if n.endswith(name)), self.label)
            raise BuildError(
                f'{where}: tensor "{name}": got shape {tuple(stored)}, expected {tuple(expected)}.',
                f"{_CONFIG} and the weights belong to different models.",
            )

    def _keep_integers(self, model: torch.nn.Module) -> None:
        """Gives layers that torchao quantized their floats, and notes the integers, in place."""
        for name, module in model.named_modules():
            weight = getattr(module, "weight", None)
            if not isinstance(weight, TorchAOBaseTensor):
                continue
            if not isinstance(module, torch.nn.Linear):
                raise BuildError(
                    f"{self.label}: checkpoint: {name} ({type(module).__name__}): got "
                    f"{type(weight).__name__}, expected floats: only linear layers keep integers.",
                    _UNQUANTIZED,
                )
            stored = torchao_tensors.exportable(weight, f"{name}.weight", self.label)
            module.weight = torch.nn.Parameter(stored.dequantize(), requires_grad=False)
            source = f"the checkpoint ({_CONFIG}: quantization_config)"
            stored_weights.keep(module.weight, StoredWeight(stored, source, required=True))

    def _check_types(self, model: torch.nn.Module) -> None:
        """Refuses files that hold a model's floats as whole numbers, or in 8 bits.

        transformers would take these numbers for the weights. Tensors of other kinds, such as old
        masks, are no weights.
        """
        floats = {name for name, each in model.state_dict().items() if each.is_floating_point()}
        ends = {name.split(".", 1)[-1] for name in floats} | floats
        for path in sorted(self.folder.rglob("*")):
            for name, dtype in _types(path):
                is_weight = (
                    name.endswith("weight") or name in ends or name.split(".", 1)[-1] in ends
                )
                if is_weight and dtype not in FLOATS:
                    raise BuildError(
                        f'{self.label}: {path.name}: tensor "{name}": got {dtype}, expected one of '
                        f"{', '.join(FLOATS)}: numbers of another type need scales.",
                        _UNQUANTIZED,
                    )

    def check_unused(self, loaded: Loaded, spec: ModelSpec) -> None:
        """Fails where what a program returns depends on weights that the checkpoint does not have.

        They are made NaN, which all that is computed of them becomes, too, and then zero.
        """
        missing = {name: _tensor(loaded.model, name) for name in loaded.missing}
        missing = {name: each for name, each in missing.items() if each.is_floating_point()}
        if not missing:
            return
        with torch.no_grad():
            for tensor in missing.values():
                tensor.fill_(torch.nan)
            outputs = [method.module(*method.example_inputs) for method in spec.methods.values()]
            for tensor in missing.values():
                tensor.zero_()
        if not any(output.isnan().any() for output in pytree.tree_leaves(outputs)):
            return
        raise BuildError(
            f"{self.label}: checkpoint: got no weights for {listed(missing)} of "
            f"{type(loaded.model).__name__}, expected all that the outputs depend on. {_CONFIG} "
            f"says that the weights are of {', '.join(self.architectures) or 'no architecture'}.",
            "Take a checkpoint that was trained for the task, or another task.",
        )

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        """Names the target where transformers raises an error."""
        try:
            yield
        except BuildError:
            raise
        except Exception as error:  # Its modeling code raises whatever a wrong file leads to.
            raise BuildError(
                f"{self.label}: checkpoint: {what}: {first_line(error)}", _AGAIN
            ) from error


@contextmanager
def opened(ctx: ModelContext) -> Iterator[Checkpoint]:
    """Opens the checkpoint among a target's files.

    Args:
      ctx: its data are the files of one checkpoint.

    Raises:
      BuildError: config.json is missing, malformed, of an architecture that transformers does not
        have, or of one whose code is in the checkpoint.
    """
    configs = [name for name in ctx.files if name.rsplit("/", 1)[-1] == _CONFIG]
    if len(configs) != 1:
        raise BuildError(
            f"{ctx.label}: checkpoint: got {len(configs)} files {_CONFIG}, expected one.", _AGAIN
        )
    values = _read_json(ctx.files[configs[0]], ctx.label)
    _check(values, ctx.label)
    base = configs[0].removesuffix(_CONFIG)
    with tempfile.TemporaryDirectory() as folder:
        for name, path in sorted(ctx.files.items()):
            inside = name.removeprefix(base) if name.startswith(base) else path.name
            link = Path(folder, inside)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.absolute())
        try:
            config = transformers.AutoConfig.from_pretrained(
                folder, attn_implementation="eager", local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # As above.
            raise BuildError(
                f"{ctx.label}: {_CONFIG}: transformers {transformers.__version__} cannot read it: "
                f"{first_line(error)}",
                _AGAIN,
            ) from error
        named = values.get("architectures") or ()
        yield Checkpoint(Path(folder), ctx.label, config, tuple(named))


def exportable(loaded: Loaded) -> Any:
    """Returns a model, or of those that also speak the part that writes, prepared for export."""
    model = getattr(loaded.model, "thinker", loaded.model)
    model.requires_grad_(False)
    for part in parts_with_experts(model):
        # Of the implementations, the one without operators that ExecuTorch lacks.
        part.set_experts_implementation("batched_mm")
    return model


def parts_with_experts(model: torch.nn.Module) -> list[Any]:
    """Parts that are a mixture of experts, of which some contain others."""
    models = [part for part in model.modules() if isinstance(part, transformers.PreTrainedModel)]
    return [part for part in models if part._can_set_experts_implementation()]


def with_method(model: Any, name: str) -> Any:
    """The part that has a method: the model inside of one, itself or its encoder; or None."""
    parts = (getattr(model, "model", None), model, getattr(model, "get_encoder", lambda: None)())
    return next((part for part in parts if hasattr(part, name)), None)


def parameters_of(owner: Any, name: str) -> dict[str, inspect.Parameter]:
    """Of a method, by their names."""
    return dict(inspect.signature(getattr(owner, name)).parameters)


def first_line(error: Exception) -> str:
    """The first line of an error's message, as a sentence."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0] if lines[0].endswith(".") else lines[0] + "."


def _check(values: dict[str, Any], label: str) -> None:
    """Refuses checkpoints with Python code, quantized weights or an unknown architecture."""
    if values.get("auto_map"):
        raise BuildError(
            f"{label}: {_CONFIG}: auto_map: the architecture is Python code in the checkpoint "
            f"({listed(sorted(map(str, values['auto_map'].values())))}), which is not run.",
            "Take a checkpoint of an architecture that transformers has, or review the code and "
            "declare it with et_model.",
        )
    quantized = values.get("quantization_config")
    method = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
    if quantized and method != "torchao":
        raise BuildError(
            f"{label}: {_CONFIG}: quantization_config: got weights that are quantized with "
            f'"{method}", expected floating-point weights, or "torchao".',
            _UNQUANTIZED,
        )
    model_type = values.get("model_type")
    if model_type not in transformers.CONFIG_MAPPING:
        raise BuildError(
            f'{label}: {_CONFIG}: model_type: got "{model_type}", expected one of the '
            f"{len(transformers.CONFIG_MAPPING)} architectures of transformers "
            f"{transformers.__version__}.",
            "Declare the model with et_model and its own code.",
        )


def _read_json(path: Path, label: str) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise BuildError(f"{label}: {path.name}: not JSON: {error}.", _AGAIN) from error
    if not isinstance(values, dict):
        raise BuildError(f"{label}: {path.name}: got no JSON object, expected one.", _AGAIN)
    return values


def _types(path: Path) -> Iterator[tuple[str, str]]:
    """Names of a file's tensors, and how they are stored; nothing of files of other kinds."""
    if path.suffix == ".safetensors":
        file = open_tensors(path, path.name, _AGAIN)
        for name in file.keys():  # noqa: SIM118  (no mapping)
            yield name, file.get_slice(name).get_dtype()
    elif path.suffix == ".bin":
        held = torch.load(path, map_location="meta", weights_only=True)
        for name, tensor in held.items():
            if isinstance(tensor, torch.Tensor):
                yield name, _OF_TORCH.get(tensor.dtype, str(tensor.dtype))


def _tensor(model: torch.nn.Module, name: str) -> torch.Tensor:
    owner, _, attribute = name.rpartition(".")
    return getattr(model.get_submodule(owner), attribute)
