"""etbuild.arguments: values of any characters on command lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from etbuild.arguments import ToolParser, split_pair

# As paths.bzl of //toolchains/python has them.
PAIRS = [
    ("_main/w.bin=w.bin", "_main/w.bin", "w.bin"),
    (
        "_main/epoch%3D9-step%3D1.ckpt=x/epoch=9-step=1.ckpt",
        "_main/epoch=9-step=1.ckpt",
        "x/epoch=9-step=1.ckpt",
    ),
    ("_main/100%25.bin=100%.bin", "_main/100%.bin", "100%.bin"),
    ("_main/%253D=%3D", "_main/%3D", "%3D"),
    ("_main/a b'c\"d,é+#.bin=-a b'c\"d,é+#.bin", "_main/a b'c\"d,é+#.bin", "-a b'c\"d,é+#.bin"),
    ("_main/last%3D=last=", "_main/last=", "last="),
]


@pytest.mark.parametrize(("argument", "name", "file"), PAIRS)
def test_names_and_files_are_as_they_were(argument: str, name: str, file: str) -> None:
    assert split_pair(argument) == (name, Path(file))


def parser() -> ToolParser:
    result = ToolParser(prog="tool")
    result.add_argument("--program", nargs=2, action="append", default=[])
    result.add_argument("--output", type=Path)
    return result


@pytest.mark.parametrize(
    "name", ["-net", "--net", "-", "-1", "--prog", "a b", "@a", "--net=x", "é"]
)
def test_values_may_begin_with_a_dash(name: str) -> None:
    given = parser().parse_args(["--program", name, "-x.pte", "--output", name])
    assert given.program == [[name, "-x.pte"]]
    assert given.output == Path(name)
    assert parser().parse_args([f"--output={name}"]).output == Path(name)


@pytest.mark.parametrize("arguments", [["--color"], ["--out", "x"], ["--program", "a"]])
def test_options_that_there_are_not(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(arguments)
    assert "tool: error: " in capsys.readouterr().err
