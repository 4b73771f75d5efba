"""The import tree, and what is said when a module or a function isn't there. Needs no torch."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from etbuild import BuildError
from etlower import sources
from request_files import install

pytestmark = pytest.mark.usefixtures("clean_imports")


def fails(reference: str, attribute: str = "entry_point") -> BuildError:
    """The error of loading a reference for //m:net."""
    with pytest.raises(BuildError) as caught:
        sources.load(reference, "//m:net", attribute)
    return caught.value


def test_modules_are_found_by_their_path_in_the_workspace(tmp_path: Path) -> None:
    install(tmp_path, models__one="def build(): return 1", root_one="def build(): return 2")
    assert sources.load("models.one:build", "//m:net", "entry_point")() == 1
    assert sources.load("root_one:build", "//m:net", "entry_point")() == 2


def test_methods_of_classes_and_any_callable_will_do(tmp_path: Path) -> None:
    install(
        tmp_path,
        forms="class Maker:\n    @staticmethod\n    def build(): return 3\nlater = lambda: 4\n",
    )
    assert sources.load("forms:Maker.build", "//m:net", "entry_point")() == 3
    assert sources.load("forms:later", "//m:net", "entry_point")() == 4


def test_only_declared_files_are_in_the_tree(tmp_path: Path) -> None:
    tree = install(tmp_path, models__declared="def build(): pass")
    (tmp_path / "workspace/models/hidden.py").write_text("def build(): pass")
    assert [p.name for p in tree.rglob("*.py")] == ["declared.py"]
    assert fails("models.hidden:build").what == (
        '//m:net: entry_point names the module "models.hidden", which was not found.'
    )


def test_roots_come_before_everything_else(tmp_path: Path) -> None:
    before = list(sys.path)
    tree = tmp_path / "tree"
    files = {name: tmp_path / f"{name.replace('/', '_')}.py" for name in ("_main/a.py", "b/a.py")}
    for name, file in files.items():
        file.write_text(f"where = {name!r}")
    sources.install(tree, files, ("b", "_main", "nowhere"))
    assert sys.path == [str(tree / "b"), str(tree / "_main"), *before]
    sources.install(tree, files, ("b", "_main"))
    assert sys.path == [str(tree / "b"), str(tree / "_main"), *before]


@pytest.mark.parametrize("name", ["nothing_here", "nothing_here.deeper"])
def test_a_missing_module_explains_module_names(name: str) -> None:
    error = fails(f"{name}:build")
    assert error.what == f'//m:net: entry_point names the module "{name}", which was not found.'
    assert "A source's module name is its path from the workspace's root: m" in error.hint
    assert error.hint.endswith("Is the file in srcs?")


def test_a_missing_dependency_is_named(tmp_path: Path) -> None:
    install(tmp_path, models__user="import no_such_package.part\ndef build(): pass")
    error = fails("models.user:build")
    assert error.what == '//m:net: "models.user" imports "no_such_package", which was not found.'
    assert error.hint.startswith("Add a py_library that provides it to deps")


_ROOT = "Names of modules begin at the workspace's root: "
_UNKNOWN = "Add a py_library that provides it to deps of the model or recipe, or the package to the"


@pytest.mark.parametrize(
    ("files", "reference", "what", "hint"),
    [
        # The entry point is in a package.
        (
            {"tidy__nets": ""},
            "nets:f",
            'entry_point names the module "nets"',
            f'{_ROOT}tidy/nets.py is "tidy.nets". Write entry_point = "tidy.nets:f".',
        ),
        (
            {"apps__tidier__nets": ""},
            "tidier.nets:f",
            'entry_point names the module "tidier.nets"',
            f'{_ROOT}apps/tidier/nets.py is "apps.tidier.nets". Write entry_point = "apps.tidier.',
        ),
        (
            {"one__twice": "", "two__twice": ""},
            "twice:f",
            'entry_point names the module "twice"',
            f'{_ROOT}one/twice.py is "one.twice" and two/twice.py is "two.twice". Write ',
        ),
        (
            {"made__init____init__": ""},
            "init:f",
            'entry_point names the module "init"',
            f'{_ROOT}made/init/__init__.py is "made.init". Write entry_point = "made.init:f".',
        ),
        # The source is not declared: the package of the target says its name.
        (
            {},
            "unknown_nets:f",
            'entry_point names the module "unknown_nets"',
            "A source's module name is its path from the workspace's root: m/unknown_nets.py is "
            '"m.unknown_nets", nets.py at the root is "nets". Is the file in srcs?',
        ),
        # A module imports one beside it by its short name.
        (
            {"a__net": "import blocks_a", "a__blocks_a": ""},
            "a.net:f",
            '"a.net" imports "blocks_a"',
            f'{_ROOT}a/blocks_a.py is "a.blocks_a". Import that name.',
        ),
        (
            {"b__net": "import b.middle", "b__middle": "import blocks_b.x", "b__blocks_b__x": ""},
            "b.net:f",
            '"b.middle" imports "blocks_b"',
            f'{_ROOT}b/blocks_b is "b.blocks_b". Import that name.',
        ),
        # The one beside it is not declared.
        (
            {"c__net": "import blocks_c"},
            "c.net:f",
            '"c.net" imports "blocks_c"',
            f"{_UNKNOWN} lock of the exporter environment. If it is blocks_c.py beside c/net.py, "
            'add it to srcs and import it as "c.blocks_c".',
        ),
        (
            {"net_d": "import blocks_d"},
            "net_d:f",
            '"net_d" imports "blocks_d"',
            f"{_UNKNOWN} lock of the exporter environment. If it is blocks_d.py beside net_d.py, "
            "add it to srcs.",
        ),
        (
            {"e__net": "import e.blocks"},
            "e.net:f",
            '"e.net" imports "e.blocks"',
            "Add e/blocks.py to srcs, or its py_library to deps.",
        ),
        (
            {"g__net": "from . import blocks"},
            "g.net:f",
            '"g.net" imports "g.blocks"',
            "Add g/blocks.py to srcs, or its py_library to deps.",
        ),
        (
            {"h__net": "from .blocks import Block"},
            "h.net:f",
            '"h.net" imports "h.blocks"',
            "Add h/blocks.py to srcs, or its py_library to deps.",
        ),
        (
            {"j____init__": "", "j__net": "import j.blocks"},
            "j.net:f",
            '"j.net" imports "j.blocks"',
            "Add j/blocks.py to srcs, or its py_library to deps.",
        ),
    ],
)
def test_mistakes_with_names(
    tmp_path: Path, files: dict[str, str], reference: str, what: str, hint: str
) -> None:
    """Modules are named from the workspace's root; what was meant is proposed."""
    install(tmp_path, **files)
    error = fails(reference)
    assert error.what == f"//m:net: {what}, which was not found."
    assert error.hint.startswith(hint)


def test_a_name_that_a_module_lacks_is_pythons_error(tmp_path: Path) -> None:
    install(tmp_path, k____init__="", k__net="from k import nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        sources.load("k.net:build", "//m:net", "entry_point")


def test_a_missing_function_lists_those_that_are_there(tmp_path: Path) -> None:
    install(
        tmp_path,
        listing="from os.path import join\n"
        "def make(): pass\ndef _private(): pass\ndef build_all(): pass\nclass Net: pass\nx = 1\n",
    )
    error = fails("listing:build", "builder")
    assert error.what == (
        '//m:net: builder = "listing:build": the module listing has no "build". '
        "Its functions are: build_all, make."
    )
    assert error.hint == "Correct builder, or define the function."
    assert 'has no "Net.build"' in fails("listing:Net.build").what


def test_a_module_without_functions_says_none(tmp_path: Path) -> None:
    install(tmp_path, blank="x = 1")
    assert fails("blank:build").what.endswith("Its functions are: none.")


def test_something_that_can_not_be_called(tmp_path: Path) -> None:
    install(tmp_path, value="build = 3")
    assert fails("value:build").what == (
        '//m:net: entry_point = "value:build" is a int, not a function.'
    )


@pytest.mark.parametrize("reference", ["", "models.llama", ":build", "models.llama:"])
def test_a_malformed_reference(reference: str) -> None:
    error = fails(reference)
    assert error.what == f'//m:net: entry_point = "{reference}" is malformed.'
    assert error.hint == 'Write "module:function", e.g. entry_point = "models.llama:build".'


def test_other_errors_of_a_module_pass_through(tmp_path: Path) -> None:
    install(tmp_path, broken="1 / 0")
    with pytest.raises(ZeroDivisionError):
        sources.load("broken:build", "//m:net", "entry_point")
