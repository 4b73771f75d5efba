"""The exporter's command line. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from etbuild import BuildError
from etlower import flags

LEAST = ["lower", "--label=//m:p", "--output=out/p.lowered"]


def test_the_least_that_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = flags.parse(LEAST)
    assert (result.command, result.label, result.model_label) == ("lower", "//m:p", "//m:p")
    assert result.output == tmp_path / "out/p.lowered"
    assert (result.timings, result.program, result.program_data) == (None, None, ())
    assert (result.sources, result.data, result.arguments) == ({}, {}, {})


def test_all_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = {"label": "//r:r", "builder": "a:b", "options": {"n": "=1\n2"}}
    result = flags.parse(
        [
            "bundle",
            "--label=@other//m:p",
            "--model_label=//m:net",
            "--output=/abs/out",
            "--timings=timings.json",
            "--entry_point=models.net:build",
            "--source=_main/net.py=src/net.py",
            "--source=_main/b%3Dc.py=src/b=c.py",
            "--root=_main",
            "--root=other",
            "--data=_main/w.bin=w.bin",
            "--data=_main/epoch%3D9-step%3D1000.ckpt=-x y/epoch=9-step=1000.ckpt",
            "--recipe_data=_main/t.json=t.json",
            '--args={"n": "1", "é": "ü"}',
            "--method=prefill",
            "--method=decode",
            f"--recipe={json.dumps(recipe)}",
            "--program=p.pte",
            "--program_data=a.ptd",
            "--program_data=b.ptd",
        ]
    )
    assert (result.command, result.label, result.model_label) == (
        "bundle",
        "@other//m:p",
        "//m:net",
    )
    assert (result.output, result.timings) == (Path("/abs/out"), tmp_path / "timings.json")
    assert result.entry_point == "models.net:build"
    assert result.sources["_main/net.py"] == tmp_path / "src/net.py"
    assert result.roots == ("_main", "other")
    assert result.sources["_main/b=c.py"] == tmp_path / "src/b=c.py"
    assert result.data == {
        "_main/w.bin": tmp_path / "w.bin",
        "_main/epoch=9-step=1000.ckpt": tmp_path / "-x y/epoch=9-step=1000.ckpt",
    }
    assert result.recipe_data == {"_main/t.json": tmp_path / "t.json"}
    assert result.arguments == {"n": "1", "é": "ü"}
    assert result.methods == ("prefill", "decode")
    assert result.recipe == recipe
    assert result.program == tmp_path / "p.pte"
    assert result.program_data == (tmp_path / "a.ptd", tmp_path / "b.ptd")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([*LEAST, "--color=red"], "unrecognized arguments: --color=red"),
        ([*LEAST, "--meth=a"], "unrecognized arguments: --meth=a"),
        (["paint", *LEAST[1:]], "argument command: invalid choice: 'paint'"),
        (["lower", "--output=o"], "the following arguments are required: --label"),
        ([], "the following arguments are required: command, --label, --output"),
    ],
)
def test_wrong_flags_are_an_error_and_no_exit(arguments: list[str], told: str) -> None:
    with pytest.raises(BuildError) as caught:
        flags.parse(arguments)
    assert caught.value.what.startswith(f"The exporter was started with unknown flags: {told}")


def test_files_of_flags_are_expanded(tmp_path: Path) -> None:
    file = tmp_path / "flags"
    file.write_text('lower\n--label=@other//m:p\n--args={"a": "b c"}\n--output=ü\n')
    assert flags.expand([f"@{file}", "--method=a"]) == [
        "lower",
        "--label=@other//m:p",
        '--args={"a": "b c"}',
        "--output=ü",
        "--method=a",
    ]
    assert flags.expand(LEAST) == LEAST


@pytest.mark.parametrize("character", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_only_line_feeds_end_a_flag(tmp_path: Path, character: str) -> None:
    file = tmp_path / "flags"
    expected = ["lower", f"--args=a{character}b", "", "--output=o"]
    file.write_bytes("".join(f"{line}\n" for line in expected).encode())
    assert flags.expand([f"@{file}"]) == expected


def test_an_empty_file_holds_no_flags(tmp_path: Path) -> None:
    (tmp_path / "flags").write_bytes(b"")
    assert flags.expand([f"@{tmp_path / 'flags'}"]) == []
