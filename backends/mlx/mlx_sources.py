"""The Python sources of MLX's backend that upstream generates where it is built for macOS.

Wheels for other platforms lack them, and have what makes them: the schema, its generator and flatc.
They are made once in a process, in a folder of their own, in a tenth of a second.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import io
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import mlx_guards
import mlx_reproducible
from etbuild import BuildError

_PACKAGE = "executorch.backends.mlx.serialization"


def load_upstream(label: str) -> tuple[ModuleType, ModuleType]:
    """Imports upstream's package for MLX and its module of passes, with our guards.

    Args:
      label: of the recipe, for messages.

    Raises:
      BuildError: the sources cannot be made.
    """
    make_sources(label)
    mlx = importlib.import_module("executorch.backends.mlx")
    registry = importlib.import_module("executorch.backends.mlx.builder.op_registry").REGISTRY
    mlx_guards.install(registry)
    builder = importlib.import_module("executorch.backends.mlx.builder.program_builder")
    mlx_guards.tell_constants_apart(builder.MLXProgramBuilder)
    mlx_guards.refuse_sizes(builder.MLXProgramBuilder)
    slots = importlib.import_module("executorch.backends.mlx.builder.slot_manager")
    mlx_guards.count_fractions(slots.SlotManager)
    patterns = importlib.import_module("executorch.backends.mlx.patterns")
    mlx_guards.repeat_joint_keys(patterns.SDPAHandler)
    preprocess = importlib.import_module("executorch.backends.mlx.preprocess")
    mlx_guards.join_constants(importlib.import_module("executorch.exir.backend.backend_api"))
    mlx_reproducible.install(preprocess)
    return mlx, importlib.import_module("executorch.backends.mlx.passes")


def make_sources(label: str) -> None:
    """Has upstream's package for MLX be whole, where this platform's wheel lacks a part.

    Args:
      label: of the recipe, for messages.

    Raises:
      BuildError: the sources cannot be made.
    """
    import executorch

    root = Path(executorch.__path__[0])
    given = root / "backends/mlx/serialization"
    # The wheel for macOS has them.
    if not (given / "mlx_graph_schema.py").is_file() and _PACKAGE not in sys.modules:
        folder = Path(tempfile.mkdtemp(prefix="mlx-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        made = folder / "serialization"
        shutil.copytree(given, made, ignore=shutil.ignore_patterns("__pycache__"))
        _generate(label, made, root / "data/bin/flatc")
        _load(_PACKAGE, made / "__init__.py")


def _generate(label: str, folder: Path, flatc: Path) -> None:
    """Writes the sources into a copy of upstream's package."""
    generator = _load("mlx_generate", folder / "generate.py")
    generator.RUNTIME_DIR = folder.parent
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        schema = generator.parse_fbs(generator.SCHEMA_FBS)
        succeeded = generator.run_flatc(str(flatc))
        generator._fixup_flatc_imports()
    if not succeeded:
        raise BuildError(
            f"{label}: {flatc} could not read the schema of MLX's payloads: "
            f"{' '.join(said.getvalue().split())}"
        )
    sources = {
        "mlx_graph_schema.py": generator.generate_python_schema(schema),
        "_generated_serializers.py": generator.generate_python_serializers(schema),
        "_generated/__init__.py": "",
    }
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="utf-8")


def _load(name: str, path: Path) -> ModuleType:
    """Imports a file under a module's name, as a package if it is an __init__.py."""
    folders = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    assert spec is not None and spec.loader is not None, "the path is that of a Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
