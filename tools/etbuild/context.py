"""The argument of an entry point or a recipe builder."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from etbuild.checkpoint import load_checkpoint
from etbuild.errors import BuildError, listed
from etbuild.options import Options


@dataclass(frozen=True)
class ModelContext:
    """The arguments and files of an `et_model`.

    Attributes:
      args: the `args` attribute of the target: strings by name.
      files: the files of the `data` attribute: path as declared in the workspace ("models/a.gguf",
        "smollm2/model.gguf" for a file of another repository) to path on disk.
      label: the label of the `et_model`, for messages.
    """

    args: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Path] = field(default_factory=dict)
    label: str = "//:model"

    def file(self, name: str) -> Path:
        """Path of a file from `data`.

        Args:
          name: a file name ("model.gguf"), or as many trailing folders as make it unambiguous
            ("base/model.gguf").

        Returns:
          The path of the file, or of the directory if a target's output is one.

        Raises:
          BuildError: no such file in `data`, or more than one.
        """
        path = name.strip("/")
        # A whole path is unique, even where it is the end of another one.
        if path in self.files:
            return self.files[path]
        matches = [p for p in self.files if p.endswith("/" + path)]
        if len(matches) == 1:
            return self.files[matches[0]]
        if len(matches) > 1:
            raise BuildError(
                f'{self.label}: the file name "{name}" is ambiguous: {listed(sorted(matches))}.',
                "Ask for it with as many folders as make it unique, e.g. "
                f'ctx.file("{matches[0]}").',
            )
        if not self.files:
            raise BuildError(
                f'{self.label}: the model asks for the file "{name}", but the target has no data.',
                f"Add the file to the data attribute of {self.label}.",
            )
        close = difflib.get_close_matches(path, list(self.files), n=1, cutoff=0.5)
        raise BuildError(
            f'{self.label}: the model asks for the file "{name}", which is not in its data. '
            f"Available: {listed(sorted(self.files))}.",
            f"Add it to the data attribute of {self.label}"
            + (f', or ask for "{close[0]}".' if close else "."),
        )

    def checkpoint(self, name: str) -> Any:
        """The weights in a file from `data`. No code in it runs.

        Args:
          name: as for `file`: safetensors, what `torch.save` wrote, or TorchScript.

        Returns:
          The saved object on the CPU, usually a dict of tensors by name; see `load_checkpoint`.

        Raises:
          BuildError: as for `file`; the file is damaged, of another kind, or a pickle that would
            run code.

        Example:

            net.load_state_dict(ctx.checkpoint("net.pt"))
        """
        try:
            return load_checkpoint(self.file(name))
        except BuildError as error:
            raise BuildError(f"{self.label}: {error.what}", error.hint) from error

    def arg(self, name: str, default: str | None = None) -> str:
        """One of the target's `args`.

        Args:
          name: its name.
          default: the value if the target does not set it; None: the argument is required.

        Returns:
          Its value, a string.

        Raises:
          BuildError: it is missing and has no default.
        """
        if name in self.args:
            return self.args[name]
        if default is not None:
            return default
        raise BuildError(
            f'{self.label}: the model needs the argument "{name}", and got: '
            f"{listed(sorted(self.args))}.",
            f'Add args = {{"{name}": "…"}} to {self.label}.',
        )


@dataclass(frozen=True)
class RecipeContext:
    """The argument of a recipe builder (`et_recipe(builder = "module:function")`).

    Attributes:
      options: the options of the recipe target, its bases' included.
      label: the label of the recipe, for messages.
      data: files of the recipe's `data`, as in `ModelContext.files`.
      base: the executorch.export.ExportRecipe of the recipe's `base`; None: it has none.
      qat: whether the recipe is for quantization-aware training: its PT2E quantizers must be, and
        `is_qat` of its quantization set. torchao's configurations serve both.
      emulated: whether the program only runs in the backend's emulator, in place of the one for the
        device: what its `et_backend` says that the emulator refuses (`not_emulated`) is left out.
      allow_inexact: operators that the recipe may leave to a delegate that computes something else.
    """

    options: Options
    label: str = "//:recipe"
    data: Mapping[str, Path] = field(default_factory=dict)
    base: Any = None
    qat: bool = False
    emulated: bool = False
    allow_inexact: tuple[str, ...] = ()

    def exact(self, *names: str) -> tuple[str, ...]:
        """Those of some operators that must be exact: the recipe does not allow otherwise.

        Example:

            aten_transform_passes=[write_out(*ctx.exact("addmm", "gelu"))]
        """
        return tuple(name for name in names if name not in self.allow_inexact)

    def file(self, name: str) -> Path:
        """Path of a file from the recipe's `data`; see `ModelContext.file`."""
        return ModelContext(files=self.data, label=self.label).file(name)
