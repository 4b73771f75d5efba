"""What a user is told when something is wrong, by the worker that Bazel runs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from exporter_process import REPOSITORY, Exporter

PORTABLE = {"label": "//backends/portable:fp32", "builder": "portable_recipes:fp32"}
STATIC = {"label": "//x:static", "builder": "xnnpack_recipes:int8_static_per_channel"}


@pytest.fixture(scope="module")
def exporter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exporter]:
    """One worker for all faults: each must leave it alive."""
    started = Exporter(tmp_path_factory.mktemp("worker") / "log")
    yield started
    started.close()


def flags(output: Path, entry_point: str, recipe: dict, *more: str) -> list[str]:
    """The command line of a lowering of faulty.py, or of another module that `more` adds."""
    found = ["lower", "--label=//x:program", "--model_label=//x:model", f"--output={output}"]
    found += [f"--entry_point={entry_point}"] if entry_point else []
    sources = {
        "_main/faulty.py": "tests/faults/faulty.py",
        "_main/models/llama.py": "models/llama.py",
        "_main/models/gguf_file.py": "models/gguf_file.py",
        "_main/models/llama_layers.py": "models/llama_layers.py",
        "re/portable_recipes.py": "backends/portable/portable_recipes.py",
        "re/xnnpack_recipes.py": "backends/xnnpack/xnnpack_recipes.py",
    }
    found += [f"--source={place}={REPOSITORY / file}" for place, file in sources.items()]
    found += ["--root=_main", "--root=re", f"--recipe={json.dumps(recipe)}"]
    return found + list(more)


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        ("nowhere:build", 'there is no module "nowhere", which entry_point names'),
        ("faulty:nothing", 'the module faulty has no "nothing". Its functions are: ambiguous_file'),
        ("faulty:returns_none", "returned None, wanted a ModelSpec or a pair"),
        ("faulty:returns_tensor_as_inputs", "as example_inputs, wanted a tuple"),
        ("faulty:wrong_shape", "does not run on its example inputs ((1, 5) float32)"),
        ("faulty:complex_weight", 'the buffer "phase" has the unsupported dtype complex64'),
        ("faulty:fixed_dimension", 'the dynamic shapes of the method "forward" don\'t fit'),
        ("faulty:missing_file", 'asks for the file "model.gguf", but the target has no data'),
        ("faulty:missing_argument", 'the model needs the argument "width", and got: none'),
        ("faulty:raises", 'failed in the stage "load": ValueError: my own problem'),
        ("faulty:exits", "the model's code called exit(3)"),
        ("faulty:kills_itself", "the lowering's process was killed by signal 9 (SIGKILL)"),
    ],
)
def test_message(exporter: Exporter, tmp_path: Path, entry_point: str, message: str) -> None:
    """Each fault: its message, no output, and no bare stack trace."""
    output = tmp_path / "out"
    response = exporter.ask(flags(output, entry_point, PORTABLE))
    assert response["exitCode"] == 1
    assert message in response["output"]
    assert "Traceback" not in response["output"]
    assert not output.exists()
    if "killed" not in message:
        assert "//x:program" in response["output"]
        assert list(tmp_path.iterdir()) == []


def test_where_in_the_users_code(exporter: Exporter, tmp_path: Path) -> None:
    """The user's own line, and the file that has the stack trace."""
    said = exporter.ask(flags(tmp_path / "out", "faulty:raises", PORTABLE))["output"]
    assert "faulty.py:" in said
    assert 'in raises: raise ValueError("my own problem")' in said
    log = Path(said.split("The full stack trace is in ")[1].strip())
    assert "Traceback" in log.read_text()


def test_the_worker_goes_on(exporter: Exporter, tmp_path: Path) -> None:
    """After a killed child; what a model prints doesn't get between the responses."""
    exporter.ask(flags(tmp_path / "dead", "faulty:kills_itself", PORTABLE))
    response = exporter.ask(flags(tmp_path / "out", "faulty:prints_and_works", PORTABLE))
    assert response == {"exitCode": 0, "output": "", "requestId": response["requestId"]}
    assert (tmp_path / "out/index.json").exists()


def test_ambiguous_and_unknown_files(exporter: Exporter, tmp_path: Path) -> None:
    """Two files of one name; a name that is nearly right."""
    (tmp_path / "weights.bin").write_bytes(b"")
    data = [f"--data=_main/{f}/weights.bin={tmp_path / 'weights.bin'}" for f in ("a", "b")]
    said = exporter.ask(flags(tmp_path / "out", "faulty:ambiguous_file", PORTABLE, *data))
    assert '"weights.bin" is ambiguous: "a/weights.bin", "b/weights.bin"' in said["output"]
    said = exporter.ask(flags(tmp_path / "out", "faulty:missing_file", PORTABLE, *data))
    assert 'There are: "a/weights.bin", "b/weights.bin"' in said["output"]


def test_truncated_gguf(exporter: Exporter, tmp_path: Path) -> None:
    """A file that ends early: its name, and what was expected."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x00" * 8)
    data = f"--data=_main/model.gguf={path}"
    said = exporter.ask(flags(tmp_path / "out", "faulty:truncated_gguf", PORTABLE, data))
    assert said["exitCode"] == 1
    assert "model.gguf" in said["output"]
    assert "Traceback" not in said["output"]
    assert "expected" in said["output"]


@pytest.mark.parametrize("contents", [b"no archive", b"PK\x03\x04 cut off"])
def test_damaged_exported_program(exporter: Exporter, tmp_path: Path, contents: bytes) -> None:
    """A .pt2 file that is none, or is cut off."""
    path = tmp_path / "model.pt2"
    path.write_bytes(contents)
    exported = f"--exported=forward={path}"
    said = exporter.ask(flags(tmp_path / "out", "", PORTABLE, exported))["output"]
    assert 'the exported program for "forward", model.pt2, can\'t be read' in said
    assert "Write it with torch.export.save" in said


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"label": "//x:r", "builder": "faulty:recipe_of_wrong_type"}, "returned a str, wanted an"),
        (
            {"label": "//x:r", "builder": "nowhere:build"},
            'no module "nowhere", which',
        ),
        ({"label": "//x:r", "builder": "faulty:recipe_with_option"}, 'needs the option "size"'),
        ({**PORTABLE, "options": {"bits": "4"}}, 'unknown option "bits". It takes none.'),
        (
            {
                "label": "//x:r",
                "builder": "xnnpack_recipes:int8_dynamic_act_int4_weight",
                "options": {"group_size": "48"},
            },
            'option "group_size": got 48, wanted a multiple of 32',
        ),
    ],
)
def test_recipes(exporter: Exporter, tmp_path: Path, recipe: dict, message: str) -> None:
    """Recipes that are wrong, found before the model is loaded."""
    said = exporter.ask(flags(tmp_path / "out", "faulty:good", recipe))
    assert said["exitCode"] == 1
    assert message in said["output"]


def test_calibration(exporter: Exporter, tmp_path: Path) -> None:
    """A calibration function without inputs."""
    said = exporter.ask(flags(tmp_path / "out", "faulty:empty_calibration", STATIC))["output"]
    assert 'the calibration function gave no inputs for the method "forward"' in said


def test_unknown_method_and_flag(exporter: Exporter, tmp_path: Path) -> None:
    """A method that the model doesn't have; a flag of another version of the rules."""
    said = exporter.ask(flags(tmp_path / "out", "faulty:good", PORTABLE, "--method=decode"))
    assert 'has no method "decode"; it has: forward' in said["output"]
    said = exporter.ask(flags(tmp_path / "out", "faulty:good", PORTABLE, "--turbo"))
    assert "started with flags it doesn't know" in said["output"]


def test_unwritable_output(exporter: Exporter, tmp_path: Path) -> None:
    """An output below something that is no folder."""
    (tmp_path / "file").write_text("")
    said = exporter.ask(flags(tmp_path / "file/out", "faulty:good", PORTABLE))
    assert said["exitCode"] == 1
    assert "Can't write to" in said["output"]
