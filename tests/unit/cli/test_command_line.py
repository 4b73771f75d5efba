"""Messages, exit codes, and files that nobody should trust. Needs no torch."""

from __future__ import annotations

import io
import random
import shlex
from pathlib import Path

import pytest
from commands import Et, Linked
from etcli import cli
from etcli.console import Printer, bar
from synthetic import SyntheticProgram


def test_help_has_the_exit_codes(et: Et) -> None:
    result = et("--help")
    assert result.code == 0
    for text in (
        *cli.COMMANDS,
        *cli.EXAMPLES.values(),
        "exit codes:",
        "diff, reproduce: the bytes differ",
    ):
        assert text in result.out


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_each_command_has_help(et: Et, command: str) -> None:
    result = et(command, "--help")
    assert (result.code, result.err) == (0, "")
    assert f"usage: et {command}" in result.out and "--json" in result.out
    assert f"example:\n  {cli.EXAMPLES[command]}\n" in result.out


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_the_options_of_examples_exist(
    et: Et, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    words = cli.EXAMPLES[command].replace(
        f"bazel run //x:net_xnnpack.{command} --", f"et {command}"
    )
    program, name, *rest = shlex.split(words)
    assert (program, name) == ("et", command)
    # Wrong options end the command with its usage before it reads a file.
    said = et(name, *rest).err
    assert "usage:" not in said
    assert f"et {command}:" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("evaluate", "--input", "x"), ""),
        (
            ("evaluate", "--imputs=x"),
            "et evaluate: unknown option --imputs. Did you mean --inputs?",
        ),
        (
            ("run", "x.pte", "--inputs", "x.npy"),
            "et run: unknown option --inputs. Did you mean --input?",
        ),
        (
            ("verify", "x", "--frobnicate"),
            "et verify: unknown option --frobnicate. Options: --",
        ),
        (
            ("benchmark", "x.pte", "y.pte"),
            "et benchmark: got y.pte, expected no more files or targets. Example: et benchmark net",
        ),
    ],
)
def test_words_that_a_command_does_not_take(
    et: Et, arguments: tuple[str, ...], message: str
) -> None:
    """The message is about the command, and names no option of the rules' own."""
    result = et(*arguments)
    assert result.code == 2
    assert "--target_" not in result.err
    assert "usage:" not in result.err
    assert result.err.startswith(f"error: {message}" if message else "error: et evaluate needs")


@pytest.mark.parametrize("arguments", [(), ("inspect",), ("look", "x"), ("run", "x", "--repeat=0")])
def test_a_wrong_command_line(et: Et, arguments: tuple[str, ...]) -> None:
    result = et(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "usage: et" in result.err


@pytest.mark.parametrize("command", ["inspect", "verify", "run"])
def test_a_missing_file(et: Et, command: str, tmp_path: Path) -> None:
    result = et(command, tmp_path / "no.pte")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"error: {tmp_path}/no.pte: file not found. Build it, or correct the path.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate"], "Run it as: bazel run //x:program.evaluate"),
        (["benchmark"], "et benchmark needs a .pte file."),
        (["benchmark", "--max_slowdown", "1.1"], "--max_slowdown compares with a --baseline"),
    ],
)
def test_what_is_measured_must_be_named(et: Et, arguments: list[str], message: str) -> None:
    result = et(*arguments)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_a_saved_result(et: Et, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    SyntheticProgram().write(tmp_path / "p.pte")
    result = et("inspect", "p.pte", "--json", "--save", "p.json")
    assert result.code == 0
    assert (tmp_path / "p.json").read_text() == result.out


@pytest.mark.parametrize("data", [b"", b"abc", b"PK\3\4 an archive", b"{}", bytes(100)])
def test_a_file_of_another_kind(et: Et, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pte"
    path.write_bytes(data)
    result = et("inspect", path)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"error: {path} is not a .pte, .ptd or .bpte file: bytes 4 to 8: ")
    assert result.err.count("\n") == 1


def test_truncated_and_changed_files(et: Et, linked: Linked, tmp_path: Path) -> None:
    """Each is read, or refused with one sentence that names it."""
    generator = random.Random(0)
    seeds = [SyntheticProgram().write(tmp_path / "seed.pte"), linked.program, linked.shared]
    refused = 0
    for seed in seeds:
        whole = seed.read_bytes()
        path = tmp_path / f"damaged{seed.suffix}"
        for number in range(120):
            data = bytearray(whole)
            if number % 3:
                for _ in range(generator.randint(1, 8)):
                    data[generator.randrange(len(data) // 2)] = generator.randrange(256)
            else:
                data = data[: generator.randrange(len(data))]
            path.write_bytes(data)
            for result in (et("inspect", path), et("diff", seed, path)):
                assert result.code in (0, 1, 2)
                if result.code == 2:
                    refused += 1
                    assert result.out == ""
                    assert result.err.startswith("error: ") and result.err.count("\n") == 1
                    assert str(path) in result.err
    assert refused > 100


class Terminal(io.StringIO):
    """Text that calls itself a terminal."""

    def isatty(self) -> bool:
        return True


def test_color_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for out, colored in ((Terminal(), True), (io.StringIO(), False)):
        printer = Printer(out)
        printer.line("wrong", "red")
        printer.table(["name", "bytes"], [["[red]a", "1"], ["b", "22"]], numbers=[1])
        assert ("\x1b[31m" in out.getvalue()) == colored
        # Markup in a name is text.
        assert "[red]a" in out.getvalue()
    assert out.getvalue().splitlines() == [
        "wrong",
        "name    bytes",
        "[red]a      1",
        "b          22",
    ]
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    Printer(plain).line("wrong", "red")
    assert "\x1b[31m" not in plain.getvalue()


def test_an_app_is_started_with_its_arguments(app: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(app), "--", "--list", "x"]) == 7
    assert capfd.readouterr().out == "started with --list x\n"
    (app / "runner").chmod(0o644)
    assert cli.main(["run", str(app)]) == 2
    assert "cannot be started: Permission denied. Is the app for this platform?" in (
        capfd.readouterr().err
    )


def test_a_bar_for_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("etcli.console._PATIENCE", 0.0)
    terminal, pipe = Terminal(), io.StringIO()
    for out in (terminal, pipe):
        with bar("Verifying", 100, out) as advance:
            advance(50)
    assert "Verifying" in terminal.getvalue()
    assert pipe.getvalue() == ""
