"""Messages for mistakes in a model or a recipe."""

from __future__ import annotations

from pathlib import Path

import pytest
from exporter_process import PORTABLE, STATIC, Exporter, flags, run_once

_MISTAKES = [
    ("nowhere:build", 'entry_point names the module "nowhere", which was not found'),
    ("faulty:nothing", 'the module faulty has no "nothing". Its functions are: ambiguous_file'),
    ("faulty:X", 'entry_point = "faulty:X" is a Tensor, not a function'),
    ("faulty:returns_none", "returned None, expected a ModelSpec or a pair"),
    ("faulty:returns_tensor_as_inputs", "as example_inputs, expected a tuple"),
    ("faulty:no_methods", "returned a ModelSpec without methods"),
    ("faulty:wrong_shape", "does not run on its example inputs ((1, 5) float32)"),
    ("faulty:complex_weight", 'the buffer "phase" has the unsupported dtype complex64'),
    ("faulty:complex_input", "its example input 0 has the unsupported dtype complex64"),
    ("faulty:fixed_dimension", 'the dynamic shapes of the method "forward" do not fit'),
    ("faulty:method_and_constant", '"forward" is both a method and a constant method'),
    ("faulty:missing_file", 'asks for the file "model.gguf", but the target has no data'),
    ("faulty:missing_argument", 'the model needs the argument "width", and got: none'),
    ("faulty:raises", 'failed in the stage "load": ValueError: my own problem'),
    ("faulty:branches_on_data", '"forward", faulty.py:87: Unsupported: Data-dependent'),
]


@pytest.mark.parametrize(("entry_point", "message"), _MISTAKES)
def test_mistake(exporter: Exporter, tmp_path: Path, entry_point: str, message: str) -> None:
    """Each mistake: its message names the target, and nothing is left."""
    said = exporter.refuse(flags(tmp_path / "out", entry_point, PORTABLE))
    assert message in said
    assert "//x:program" in said
    assert list(tmp_path.iterdir()) == []


def test_where_in_the_users_code(exporter: Exporter, tmp_path: Path) -> None:
    """The user's own line, and the file that has the stack trace."""
    said = exporter.refuse(flags(tmp_path / "out", "faulty:raises", PORTABLE))
    assert "  faulty.py:" in said
    assert 'in raises: raise ValueError("my own problem")' in said
    assert said.endswith(f"The full stack trace is in {exporter.log}\n")
    assert "Traceback" in exporter.log.read_text()


def test_paths_are_the_workspaces(exporter: Exporter, tmp_path: Path) -> None:
    """No message names a folder that only this request had."""
    for entry_point in ("faulty:raises", "faulty:branches_on_data", "faulty:wrong_shape"):
        said = exporter.refuse(flags(tmp_path / "out", entry_point, PORTABLE))
        assert str(tmp_path) not in said.split("The full stack trace")[0]


def test_missing_import(exporter: Exporter, tmp_path: Path) -> None:
    """A package that neither the environment nor deps have."""
    source = tmp_path / "broken.py"
    source.write_text("import absent_package\n")
    more = f"--source=_main/broken.py={source}"
    said = exporter.refuse(flags(tmp_path / "out", "broken:build", PORTABLE, more))
    assert '//x:model: "broken" imports "absent_package", which was not found.' in said
    assert "Add a py_library that provides it to deps" in said


def test_missing_import_in_a_function(exporter: Exporter, tmp_path: Path) -> None:
    """Found when the entry point runs."""
    said = exporter.refuse(flags(tmp_path / "out", "faulty:imports_late", PORTABLE))
    assert "ModuleNotFoundError: No module named 'absent_package'\nAdd a py_library that" in said
    assert "in imports_late: import absent_package" in said


def test_syntax_error(exporter: Exporter, tmp_path: Path) -> None:
    """A source that isn't Python."""
    source = tmp_path / "broken.py"
    source.write_text("def build(ctx:\n    return 1\n")
    more = f"--source=_main/broken.py={source}"
    said = exporter.refuse(flags(tmp_path / "out", "broken:build", PORTABLE, more))
    assert "SyntaxError: '(' was never closed (broken.py, line 1)" in said


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"builder": "faulty:recipe_of_wrong_type"}, "returned a str, expected an"),
        ({"builder": "nowhere:build"}, 'builder names the module "nowhere", which was not found'),
        ({"builder": "faulty:no_recipe"}, 'builder = "faulty:no_recipe": the module faulty has no'),
        ({"builder": "faulty:recipe_with_option"}, 'needs the option "size"'),
        (
            {"builder": "faulty:recipe_with_option", "options": {"size": "big"}},
            '//x:r: option "size": got "big", expected a whole number',
        ),
    ],
)
def test_recipe(exporter: Exporter, tmp_path: Path, recipe: dict, message: str) -> None:
    """Recipes that are wrong, found before the model is loaded."""
    wrong = {"label": "//x:r", **recipe}
    said = exporter.refuse(flags(tmp_path / "out", "faulty:raises", wrong))
    assert message in said
    assert wrong["label"] in said
    assert "my own problem" not in said


@pytest.mark.parametrize(
    ("entry_point", "message"),
    [
        ("empty_calibration", "the calibration function gave no inputs for the method"),
        ("bare_calibration", 'input 0 of the method "forward" is a Tensor, expected a tuple'),
        ("wrong_calibration", 'input 0 does not fit the method "forward"'),
        ("strange_calibration", "names the methods other; the model has: forward"),
    ],
)
def test_calibration(exporter: Exporter, tmp_path: Path, entry_point: str, message: str) -> None:
    """Calibration functions that give nothing, or what doesn't fit."""
    said = exporter.refuse(flags(tmp_path / "out", f"faulty:{entry_point}", STATIC))
    assert message in said


def test_unknown_method_and_flag(exporter: Exporter, tmp_path: Path) -> None:
    """A method that the model doesn't have; a flag of another version of the rules."""
    said = exporter.refuse(flags(tmp_path / "out", "faulty:good", PORTABLE, "--method=decode"))
    assert 'has no method "decode". Available: forward' in said
    said = exporter.refuse(flags(tmp_path / "out", "faulty:good", PORTABLE, "--turbo"))
    assert "started with unknown flags" in said


def test_without_a_worker(tmp_path: Path) -> None:
    """One process a request: the same message, and the stack trace with it."""
    done = run_once(flags(tmp_path / "out", "faulty:raises", PORTABLE), tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert 'ERROR: //x:program: failed in the stage "load": ValueError: my own' in done.stderr
    assert "  | Traceback (most recent call last):" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["request.flags"]
