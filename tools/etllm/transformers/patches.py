"""Cuts an image into the patches that a vision encoder reads.

Encoders of Qwen-VL's kind read a list of patches. In which order, and how a patch lies in memory,
is not in their modeling code but in transformers' image processors, which need torchvision. The
function of theirs that cuts needs torch alone, so it is taken out of their source, and cuts an
image of numbers. What a program does is what gives the same numbers in steps of few dimensions, of
which delegates take at most six.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from etbuild import BuildError
from transformers import image_utils
from transformers.models.auto.image_processing_auto import IMAGE_PROCESSOR_MAPPING_NAMES

# Of models that are parts of others, and so have no processor of their own.
_OTHERS = "qwen2_vl"
# By PIL's numbers.
_RESAMPLINGS = {"NEAREST": 0, "LANCZOS": 1, "BILINEAR": 2, "BICUBIC": 3}
_ORDERS = ("ctyx", "tcyx", "yxct")


@dataclass(frozen=True)
class Layout:
    """The order and the memory layout of patches.

    Attributes:
      size: rows and columns of pixels of a patch.
      merged: patches of so many rows and columns become one embedding.
      block: patches of so many rows and columns lie side by side.
      moments: how often an image is repeated, as a film has moments.
      order: of a patch's moments, channels, rows (y) and columns (x) in memory, such as "tcyx".
      shape: sizes of one patch as the encoder takes it.
    """

    size: int
    merged: int
    block: int
    moments: int
    order: str
    shape: tuple[int, ...]

    def cut(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pixels (1, channels, height, width) to (patches, *shape)."""
        rows, columns = pixels.shape[2] // self.size, pixels.shape[3] // self.size
        patches = pixels.reshape(-1, rows, self.size, columns, self.size).permute(1, 3, 0, 2, 4)
        patches = patches.reshape(rows * columns, 1, -1, self.size, self.size)
        patches = patches.expand(-1, self.moments, -1, -1, -1)
        patches = patches.permute(0, *(1 + "tcyx".index(axis) for axis in self.order))
        block = self.block
        patches = patches.reshape(rows // block, block, columns // block, block, -1)
        return patches.permute(0, 2, 1, 3, 4).reshape(rows * columns, *self.shape)


def colored(size: int, pixels: torch.Tensor) -> tuple[torch.Tensor, tuple[int, int]]:
    """Rows of patches (1, n, values) whose pixels have their colors together; rows and columns."""
    layout = Layout(size, 1, 1, 1, "yxct", (pixels.shape[1] * size**2,))
    return layout.cut(pixels)[None], (pixels.shape[2] // size, pixels.shape[3] // size)


def layout_of(config: Any, preprocessing: dict[str, Any], shape: tuple[int, ...]) -> Layout:
    """The layout of a model's patches.

    Args:
      config: of the model, with a `vision_config`.
      preprocessing: what its image processor does.
      shape: of its images: (1, channels, height, width).

    Raises:
      BuildError: the image is not made of whole patches, or they lie in a way that is not known.
    """
    vision = config.vision_config
    size, merged = _sizes(config, preprocessing)
    values = {
        "patch_size": size,
        "merge_size": merged,
        "temporal_patch_size": preprocessing.get("temporal_patch_size")
        or _first(vision, "temporal_patch_size", "patch_temporal")
        or 1,
    }
    side = values["patch_size"] * values["merge_size"]
    if any(size % side for size in shape[2:]):
        raise BuildError(
            f"{config.model_type}: image_size: got {shape[2]}x{shape[3]}, expected multiples of "
            f"{side} pixels, the side of its merged patches.",
            "Round image_size.",
        )
    function = _cutter(config.model_type)
    known = inspect.signature(function).parameters
    arguments = {name: value for name, value in values.items() if name in known}
    numbers = torch.arange(torch.Size(shape).numel()).view(shape)
    expected = function(None, numbers, **arguments)[0][0]
    moments = arguments.get("temporal_patch_size", 1)
    for block, order in itertools.product((merged, 1), _ORDERS):
        layout = Layout(size, merged, block, moments, order, tuple(expected.shape[1:]))
        if torch.equal(layout.cut(numbers), expected):
            return layout
    raise BuildError(
        f"{config.model_type}: its image processor cuts images in a way that is not known here, "
        "expected rows of patches, or blocks of them.",
        "Declare the model with et_model and its own code.",
    )


def merged_side(config: Any, preprocessing: dict[str, Any]) -> int:
    """Pixels of a side of an image's merged patches; the arguments are those of `layout_of`."""
    size, merged = _sizes(config, preprocessing)
    return size * merged


def _sizes(config: Any, preprocessing: dict[str, Any]) -> tuple[int, int]:
    """Pixels of a patch's side, and patches of a merged one's."""
    vision = config.vision_config
    merged = _first(vision, "spatial_merge_size", "merge_size", "merge_kernel_size") or 1
    merged = merged if isinstance(merged, int) else merged[0]
    return (
        preprocessing.get("patch_size") or vision.patch_size,
        preprocessing.get("merge_size") or merged,
    )


def _first(config: Any, *names: str) -> Any:
    return next((getattr(config, name) for name in names if hasattr(config, name)), None)


def processor_defaults(model_type: str) -> dict[str, Any]:
    """Returns what an architecture's image processor takes for keys that its file leaves out.

    Returns:
      The class's values by key; empty where transformers has no processor for it.
    """
    name = _processor(model_type)
    node, _ = _class(name) if name else (None, None)
    found: dict[str, Any] = {}
    for each in node.body if node else ():
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            with contextlib.suppress(TypeError, ValueError):
                found[each.targets[0].id] = _value(each.value)
    return found


def _value(node: ast.expr) -> Any:
    """A constant of a class, which may be a name of transformers' or a quotient."""
    if isinstance(node, ast.Name):
        return getattr(image_utils, node.id, None)
    if isinstance(node, ast.Attribute):
        return _RESAMPLINGS.get(node.attr)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return ast.literal_eval(node.left) / ast.literal_eval(node.right)
    return ast.literal_eval(node)


def _processor(model_type: str) -> str | None:
    """The name of an architecture's image processor."""
    entry = IMAGE_PROCESSOR_MAPPING_NAMES.get(model_type)
    return entry["torchvision"] if isinstance(entry, dict) else entry[0] if entry else None


def _class(name: str) -> tuple[ast.ClassDef | None, Path]:
    """The source of a class of transformers, and its file."""
    module = sys.modules["transformers"]._class_to_module[name]
    path = Path(transformers.__path__[0], *module.split(".")).with_suffix(".py")
    nodes = ast.walk(ast.parse(path.read_text()))
    classes = (node for node in nodes if isinstance(node, ast.ClassDef) and node.name == name)
    return next(classes, None), path


def _cutter(model_type: str) -> Callable[..., Any]:
    """The method `patchify` of an architecture's image processor."""
    name = _processor(model_type) or _processor(_OTHERS)
    node, path = _class(name)
    for method in node.body if node else ():
        if isinstance(method, ast.FunctionDef) and method.name == "patchify":
            return _compiled(method, path)
    raise BuildError(
        f"{model_type}: transformers' {name} has no method patchify, expected one that says how "
        "images are cut.",
        "Declare the model with et_model and its own code.",
    )


def _compiled(method: ast.FunctionDef, path: Path) -> Callable[..., Any]:
    # Annotations may name what is not imported here.
    method.returns = None
    for argument in method.args.args:
        argument.annotation = None
    namespace: dict[str, Any] = {"torch": torch}
    code = ast.fix_missing_locations(ast.Module([method], type_ignores=[]))
    exec(compile(code, path.name, "exec"), namespace)
    return namespace["patchify"]
