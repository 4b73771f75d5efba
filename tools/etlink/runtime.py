"""Opens programs in ExecuTorch's Python runtime: the one road from a `.pte` to a call of a method.

Callers check the files first (`merge.checked`): the runtime trusts a program's tables, so it is
asked for its minimal verification only. What the runtime refuses becomes a BuildError. Importing
this module costs nothing; opening a program imports torch.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError

_COMPILER = "executorch.exir"
_LACKS = "et inspect --runtime lists backends and operators that this runtime lacks."


def upstream() -> Any:
    """ExecuTorch's Runtime, without its compiler.

    The runtime takes a class of a small module from the compiler's package, which would import the
    whole compiler: four seconds, and 130 MB. So that package is empty for this import.
    """
    compiler = None if _COMPILER in sys.modules else importlib.util.find_spec(_COMPILER)
    if compiler:
        sys.modules[_COMPILER] = importlib.util.module_from_spec(compiler)
    try:
        from executorch.runtime import Runtime
    finally:
        if compiler:
            del sys.modules[_COMPILER]
    return Runtime.get()


class Program:
    """An opened program.

    Args:
      path: the .pte file.
      data: the .ptd file that it loads; None: it needs none.
      name: for messages; default: the file's name.
      events: whether calls record events (ETDump), which slows them down.

    Attributes:
      name: for messages.
      method_names: of all methods, constant ones too.

    Raises:
      BuildError: the runtime cannot load the program.

    Example:

        outputs = Program(Path("net.pte")).method("forward")([torch.ones(1, 64)])
    """

    def __init__(
        self, path: Path, data: Path | None = None, name: str = "", events: bool = False
    ) -> None:
        runtime = upstream()
        from executorch.runtime import Verification

        self.name = name or path.name
        try:
            self._program = runtime.load_program(
                path, verification=Verification.Minimal, data_path=data, enable_etdump=events
            )
        except RuntimeError as error:
            raise BuildError(
                f"{self.name}: the runtime cannot load the program: {error}.", _LACKS
            ) from error
        self.method_names = frozenset(self._program.method_names)

    def method(self, name: str) -> Method:
        """Loads a method; a second call returns the same one, with its state.

        Raises:
          BuildError: the program has no such method, or the runtime lacks what it needs.
        """
        if name not in self.method_names:
            raise BuildError(
                f'{self.name}: method "{name}" not found. Available: '
                f"{', '.join(sorted(self.method_names))}."
            )
        try:
            loaded = self._program.load_method(name)
        except RuntimeError:
            loaded = self._with_more_operators(name)
        return Method(self, name, loaded)

    def constant(self, name: str) -> list[Any]:
        """The outputs of a method without inputs."""
        return self.method(name)(())

    def write_events(self, path: Path) -> bool:
        """Writes the events of all calls so far as an ETDump file.

        Returns:
          Whether there are any: a runtime may be built without them.
        """
        try:
            self._program.write_etdump_result_to_file(str(path), "")
        except RuntimeError:
            return False
        return path.is_file()

    def _with_more_operators(self, name: str) -> Any:
        _load_operators()
        try:
            return self._program.load_method(name)
        except RuntimeError as error:
            raise BuildError(
                f'{self.name}: the runtime cannot load the method "{name}": {error}.', _LACKS
            ) from error


class Method:
    """A loaded method; it keeps its program open.

    Its outputs may be in the runtime's memory: copy those that must outlive it.
    """

    def __init__(self, program: Program, name: str, loaded: Any) -> None:
        self._program, self._name, self._loaded = program, name, loaded

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Runs the method.

        Args:
          inputs: tensors and numbers, flat.

        Returns:
          Its outputs, flat.

        Raises:
          BuildError: the runtime failed, e.g. on inputs of other shapes.
        """
        try:
            return list(self._loaded.execute(inputs))
        except RuntimeError as error:
            raise BuildError(
                f'{self._program.name}: the method "{self._name}" failed: {error}.'
            ) from error

    @property
    def metadata(self) -> Any:
        """Upstream's MethodMeta: number, types and shapes of inputs and outputs."""
        return self._loaded.metadata


def call(
    path: Path, data: Path | None, method: str, inputs: Sequence[Any], times: int = 1
) -> list[Any]:
    """Runs a method of a program that is loaded anew.

    A program with a state (a KV cache) must meet every input as the eager model does: fresh.

    Args:
      path: the .pte file.
      data: the .ptd file that it loads; None: it needs none.
      method: its name.
      inputs: tensors and numbers, flat.
      times: how often it is called in a row.

    Returns:
      The outputs of the last call, flat.

    Raises:
      BuildError: the runtime cannot load the program, lacks the method, or failed.
    """
    loaded = Program(path, data).method(method)
    for _ in range(times):
        outputs = loaded(inputs)
    # The runtime's outputs are in its memory, which goes with the program.
    return [output.clone() if hasattr(output, "clone") else output for output in outputs]


def missing(needs: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Lists what a program needs and this machine's runtime lacks.

    Args:
      needs: its "backends" and "operators".

    Returns:
      "missing_backends" and "missing_operators".
    """
    runtime = upstream()
    backends = set(runtime.backend_registry.registered_backend_names)
    operators = runtime.operator_registry.operator_names
    return {
        "missing_backends": [b for b in needs["backends"] if b not in backends],
        "missing_operators": [o for o in needs["operators"] if o not in operators],
    }


def _load_operators() -> None:
    """Loads upstream's operators for attention and for embeddings of 2 and 4 bits."""
    with contextlib.suppress(ImportError, OSError, RuntimeError):
        import executorch.extension.llm.custom_ops.custom_ops
        import executorch.kernels.quantized  # noqa: F401
