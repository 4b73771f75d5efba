"""The exporter's command line. Needs no torch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from etbuild import BuildError
from etexport import flags

LEAST = ["lower", "--label=//m:p", "--output=out/p.lowered"]


def test_the_least_that_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = flags.parse(LEAST)
    assert (made.command, made.label, made.model_label) == ("lower", "//m:p", "//m:p")
    assert made.output == tmp_path / "out/p.lowered"
    assert (made.timings, made.program, made.program_data) == (None, None, ())
    assert (made.exported, made.sources, made.data, made.arguments) == ({}, {}, {}, {})


def test_all_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = {"label": "//r:r", "builder": "a:b", "options": {"n": "=1\n2"}}
    made = flags.parse(
        [
            "bundle",
            "--label=@other//m:p",
            "--model_label=//m:net",
            "--output=/abs/out",
            "--timings=timings.json",
            "--entry_point=models.net:build",
            "--exported=decode=a/d.pt2",
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
    assert (made.command, made.label, made.model_label) == ("bundle", "@other//m:p", "//m:net")
    assert (made.output, made.timings) == (Path("/abs/out"), tmp_path / "timings.json")
    assert made.entry_point == "models.net:build"
    assert made.exported == {"decode": tmp_path / "a/d.pt2"}
    assert made.sources["_main/net.py"] == tmp_path / "src/net.py"
    assert made.roots == ("_main", "other")
    assert made.sources["_main/b=c.py"] == tmp_path / "src/b=c.py"
    assert made.data == {
        "_main/w.bin": tmp_path / "w.bin",
        "_main/epoch=9-step=1000.ckpt": tmp_path / "-x y/epoch=9-step=1000.ckpt",
    }
    assert made.recipe_data == {"_main/t.json": tmp_path / "t.json"}
    assert made.arguments == {"n": "1", "é": "ü"}
    assert made.methods == ("prefill", "decode")
    assert made.recipe == recipe
    assert made.program == tmp_path / "p.pte"
    assert made.program_data == (tmp_path / "a.ptd", tmp_path / "b.ptd")


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
    wanted = ["lower", f"--args=a{character}b", "", "--output=o"]
    file.write_bytes("".join(f"{line}\n" for line in wanted).encode())
    assert flags.expand([f"@{file}"]) == wanted


def test_an_empty_file_holds_no_flags(tmp_path: Path) -> None:
    (tmp_path / "flags").write_bytes(b"")
    assert flags.expand([f"@{tmp_path / 'flags'}"]) == []
