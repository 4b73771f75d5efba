"""The SDK of a backend's vendor, as a recipe's builder uses it.

`executorch.sdk(backend = "npu", path = …)` in MODULE.bazel makes a folder; the macro vendor_sdk in
//backends:vendor_sdk.bzl names it in the environment of a lowering.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from etbuild import BuildError
from etbuild.errors import listed

_VARIABLE = "EXECUTORCH_SDK_"


@dataclass(frozen=True)
class Sdk:
    """A vendor's SDK.

    Attributes:
      label: of the recipe, for messages.
      backend: its name in executorch.sdk().
      title: what the vendor calls it.
    """

    label: str
    backend: str
    title: str

    def folder(self) -> Path:
        """The folder that holds the SDK.

        Raises:
          BuildError: nowhere.
        """
        place = os.environ.get(_VARIABLE + self.backend.upper(), "")
        if not place or not Path(place).is_dir():
            raise BuildError(
                f"{self.label}: {self.title} is not given.",
                f'Add executorch.sdk(backend = "{self.backend}", path = "…") to MODULE.bazel.',
            )
        return Path(place)

    def file(self, name: str) -> Path:
        """A file of it.

        Args:
          name: its path in the SDK.

        Raises:
          BuildError: it isn't there.
        """
        path = self.folder() / name
        if not path.exists():
            raise BuildError(
                f"{self.label}: {self.title} has no {name}; {self._holds()}.",
                f"Let path of {self._tag()} in MODULE.bazel name the folder that has it.",
            )
        return path

    def preload(self, name: str) -> None:
        """Loads a library of it, so that upstream's code finds it by its bare name.

        Args:
          name: its path in the SDK.

        Raises:
          BuildError: it is missing, or cannot be loaded.
        """
        path = self.file(name)
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise BuildError(
                f"{self.label}: {name} of {self.title} cannot be loaded: {error}.",
                "Give the SDK for the platform that the build runs on, and the system libraries "
                "that it needs.",
            ) from error

    def need_modules(self, *names: str) -> None:
        """Checks that Python packages can be imported.

        Args:
          names: of packages that the SDK brings.

        Raises:
          BuildError: one can't be found.
        """
        for name in names:
            if importlib.util.find_spec(name) is None:
                raise BuildError(
                    f"{self.label}: the Python package {name} of {self.title} is missing; "
                    f"{self._holds()}.",
                    "Install the vendor's wheels for CPython 3.11 into the folder that "
                    f"{self._tag()} names: python3.11 -m pip install --no-deps --target FOLDER "
                    "WHEEL….",
                )

    def imported(self, name: str) -> Any:
        """A module of upstream's, which imports the SDK's.

        Args:
          name: of the module.

        Raises:
          BuildError: an import fails.
        """
        try:
            return importlib.import_module(name)
        except (ImportError, RuntimeError) as error:
            raise BuildError(
                f"{self.label}: {name} cannot be imported with {self.title}: {error}.",
                "Give the version of the SDK that the exporter's ExecuTorch was made for.",
            ) from error

    def _tag(self) -> str:
        return f'executorch.sdk(backend = "{self.backend}")'

    def _holds(self) -> str:
        """Lists the folder's entries, for messages."""
        names = sorted(path.name for path in self.folder().iterdir())
        return f"the folder has: {listed(names)}" if names else "the folder is empty"
