"""`bazelw` itself, with fake Bazels: what it chooses, passes on, remembers and prints."""

from __future__ import annotations

import os
import time

import pytest
from bootstrap.console import format_error
from debian.command import ActionableError
from fake_machine import REPOSITORY, Machine


def test_bazel_on_path(machine: Machine) -> None:
    """Options, commands, flags and odd words are passed on untouched, from any directory."""
    machine.fake("bin/bazel")
    deep = machine.workspace / "a dir"
    deep.mkdir()
    words = ["--output_base=/x y", "build", "//...", "--foo", "", "*", "--", "$HOME", "--version"]
    result = machine.bazelw(*words, cwd=deep)
    assert result.returncode == 0
    assert result.stdout == f"bazel {deep} " + " ".join(f"<{word}>" for word in words) + "\n"
    assert result.stderr == ""


def test_decision_is_remembered(machine: Machine) -> None:
    """The second start asks nobody anything."""
    machine.fake("bin/bazel")
    machine.bazelw("info")
    assert machine.asked() == 2  # Its version, then the command.
    machine.bazelw("info")
    assert machine.asked() == 3
    machine.bazelw("info", cwd=machine.root)
    assert machine.asked() == 5  # Another workspace, none to be precise: another decision.


def test_start_is_quick(machine: Machine) -> None:
    """The wrapper adds far less than a tenth of a second when all is known."""
    machine.fake("bin/bazel", body="exit 0")
    machine.environment["BAZEL"] = str(machine.root / "bin/bazel")
    machine.bazelw("info")
    times = []
    for _ in range(5):
        started = time.monotonic()
        machine.bazelw("info")
        times.append(time.monotonic() - started)
    assert min(times) < 0.1


def test_environment_variable_comes_first(machine: Machine) -> None:
    """$BAZEL wins over PATH; a change of it counts at once."""
    machine.fake("bin/bazel")
    own = machine.fake("own/my-bazel")
    assert machine.bazelw("info").stdout.startswith("bazel ")
    machine.environment["BAZEL"] = str(own)
    assert machine.bazelw("info").stdout.startswith("my-bazel ")
    del machine.environment["BAZEL"]
    assert machine.bazelw("info").stdout.startswith("bazel ")


def test_environment_variable_may_be_a_name(machine: Machine) -> None:
    """A program on PATH."""
    machine.fake("bin/bazel-8.0", version="8.0.0")
    machine.environment["BAZEL"] = "bazel-8.0"
    assert machine.bazelw("info").stdout.startswith("bazel-8.0 ")


def test_old_bazel_of_the_users_choice(machine: Machine) -> None:
    """It is used, with a warning."""
    machine.environment["BAZEL"] = str(machine.fake("own/bazel", version="6.5.0"))
    result = machine.bazelw("info")
    assert result.returncode == 0
    expected = "too old: got 6.5.0, expected 7.7 or newer. It is used nevertheless."
    assert f"bazelw: warning: BAZEL: {machine.root}/own/bazel: {expected}\n" == result.stderr
    assert machine.bazelw("info").stderr == ""


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("/nowhere/bazel", "no such program"),
        ("no-such-bazel", "no such program"),
        ("{workspace}/MODULE.bazel", "no such program"),
        (str(REPOSITORY / "bazelw"), "is bazelw itself"),
    ],
)
def test_wrong_environment_variable(machine: Machine, value: str, reason: str) -> None:
    """Nothing replaces what the user chose."""
    machine.fake("bin/bazel")
    machine.environment["BAZEL"] = value.format(workspace=machine.workspace)
    result = machine.bazelw("info")
    assert result.returncode == 36
    assert f"BAZEL: {reason}: got '{machine.environment['BAZEL']}', expected" in result.stderr
    assert "unset it" in result.stderr
    assert result.stdout == ""


def test_bazelisk_when_bazel_is_old(machine: Machine) -> None:
    """The next candidate."""
    machine.fake("bin/bazel", version="4.2.3")
    machine.fake("bin/bazelisk", version="8.1.0")
    assert machine.bazelw("info").stdout.startswith("bazelisk ")


def test_bazelisk_from_npm(machine: Machine) -> None:
    """Bazelisk is fetched once if Bazel's host answers, and then used."""
    bazelisk = machine.fake("npm/bazelisk")
    machine.environment["BAZELISK_BASE_URL"] = "file:///mirror"
    package = "node_modules/@bazel/bazelisk"
    machine.fake(
        "bin/npm",
        body=f"""
for word in "$@"; do [[ $word != --prefix=* ]] || folder=${{word#*=}}/{package}; done
/bin/mkdir -p "$folder"
for name in linux_amd64 linux_arm64; do /bin/cp "{bazelisk}" "$folder/bazelisk-$name"; done
exit""",
    )
    result = machine.bazelw("info")
    assert result.stdout.startswith("bazelisk ")
    assert result.stderr == "bazelw: fetching Bazelisk\n"
    machine.fake("bin/npm", body="exit 1")
    assert machine.bazelw("info", cwd=machine.root).stderr == ""
    assert sorted(path.name for path in machine.cache.glob("bazelisk-*/*")) == ["bazelisk"]


_ASKED = """
version=${USE_BAZEL_VERSION:-}
[[ -n $version ]] || read -r version 2>/dev/null <.bazelversion || version=9.1.0
[[ $* != --version ]] || { echo "bazel $version"; exit; }
echo "ran $version"; exit
"""
_TESTED = (REPOSITORY / ".bazelversion").read_text().strip()


@pytest.mark.parametrize(
    ("files", "variable", "expected"),
    [
        ({}, "", _TESTED),
        ({".bazelversion": "8.2.0\n"}, "", "8.2.0"),
        ({}, "7.8.0", "7.8.0"),
        # Bazelisk reads it itself; this one does not.
        ({".bazeliskrc": "USE_BAZEL_VERSION=8.1.0\n"}, "", "9.1.0"),
    ],
)
def test_version_for_bazelisk(
    machine: Machine, files: dict[str, str], variable: str, expected: str
) -> None:
    """The user's, else the tested one; never just the newest. Other majors get a line, once."""
    machine.fake("bin/bazelisk", body=_ASKED)
    for name, text in files.items():
        (machine.workspace / name).write_text(text)
    if variable:
        machine.environment["USE_BAZEL_VERSION"] = variable
    result = machine.bazelw("info")
    assert result.stdout == f"ran {expected}\n", result.stderr
    assert ("not tested with Bazel" in result.stderr) == (expected[0] > _TESTED[0])
    assert machine.bazelw("info").stderr == ""


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", ""])
@pytest.mark.parametrize(
    ("name", "version", "warns"),
    [("two words", "7.7.1", False), ("Wörter", "7.7.1", True), ("語 x", "8.2.0", False)],
)
def test_letters_in_paths(
    machine: Machine, locale: str, name: str, version: str, warns: bool
) -> None:
    """Bazel 7 ends at those beyond ASCII with a message about something else, in any locale."""
    machine.fake("bin/bazelisk", body=_ASKED)
    folder = machine.root / name
    folder.mkdir()
    (folder / "MODULE.bazel").touch()
    machine.environment |= {"LC_ALL": locale, "USE_BAZEL_VERSION": version}
    machine.bazelw("info", cwd=folder)
    result = machine.bazelw("info", cwd=folder)
    assert result.stdout == f"ran {version}\n"
    expected = (
        f"bazelw: warning: {folder}: got letters beyond ASCII in the path of the workspace, with "
        'which Bazel 7 fails ("is not inside workspace").\n'
        "  What to do: Move the workspace to a path of ASCII letters; spaces are fine.\n"
    )
    assert result.stderr == (expected if warns else "")


def test_upgraded_bazel_is_looked_at_again(machine: Machine) -> None:
    """A changed program is asked for its version again."""
    program = machine.fake("bin/bazel")
    machine.bazelw("info")
    program.unlink()
    machine.fake("bin/bazel", version="4.2.3")
    os.utime(program, (time.time() + 10, time.time() + 10))
    result = machine.bazelw("info")
    assert result.returncode == 36
    assert "too old: got 4.2.3" in result.stderr


def test_never_itself(machine: Machine) -> None:
    """A link called bazel, and a program that leads back to bazelw, are passed over."""
    (machine.root / "bin/bazel").symlink_to(REPOSITORY / "bazelw")
    assert "bazel: not found on PATH" in machine.bazelw("info").stderr
    (machine.root / "bin/bazel").unlink()
    machine.fake("bin/bazel", body=f'exec "{REPOSITORY}/bazelw" "$@"')
    result = machine.bazelw("info")
    assert result.returncode == 36
    assert "leads back to bazelw" in result.stderr


def test_through_a_link(machine: Machine) -> None:
    """bazelw may be started through links to it."""
    machine.fake("bin/bazel")
    (machine.root / "one").symlink_to(REPOSITORY / "bazelw")
    (machine.workspace / "two").symlink_to("../one")
    result = machine.bazelw("info", program=machine.workspace / "two")
    assert result.stdout.startswith("bazel ")


def test_nothing_works(machine: Machine) -> None:
    """Every attempt with its reason, and what to do."""
    machine.fake("bin/bazel", version="4.2.3")
    machine.fake("bin/bazelisk", body="echo 'could not download Bazel' >&2; exit 1")
    result = machine.bazelw("build", "//...")
    assert result.returncode == 36
    assert result.stdout == ""
    for part in (
        "error: Bazel 7.7 or newer: not found. Tried, in this order:",
        "1. BAZEL: not set",
        f"2. {machine.root}/bin/bazel: too old: got 4.2.3, expected 7.7 or newer",
        f"3. {machine.root}/bin/bazelisk: --version failed with exit code 1: could not download",
        "4. Bazelisk: its download host is unreachable: 127.0.0.1:9",
        "5. Bazel from Debian packages: apt-get: not found on PATH",
        "Install Bazel 7.7 or newer",
    ):
        assert part in result.stderr
    assert "Traceback" not in result.stderr
    leftovers = [path.name for path in machine.cache.iterdir()]
    assert leftovers == ["lock"]


def test_no_home_no_user(machine: Machine) -> None:
    """XDG_CACHE_HOME is enough; a relative one counts for nothing."""
    machine.fake("bin/bazel")
    machine.environment["XDG_CACHE_HOME"] = str(machine.root / "xdg")
    del machine.environment["HOME"]
    assert machine.bazelw("info").returncode == 0
    assert (machine.root / "xdg/rules_executorch/bazelw/workspaces").is_dir()
    machine.environment["HOME"] = str(machine.root / "home")
    machine.environment["XDG_CACHE_HOME"] = "relative"
    assert machine.bazelw("info").returncode == 0
    assert machine.cache.is_dir()
    assert not (machine.workspace / "relative").exists()


def test_cache_that_cannot_be_written(machine: Machine) -> None:
    """It says so and what to set."""
    machine.fake("bin/bazel")
    (machine.root / "file").touch()
    machine.environment["XDG_CACHE_HOME"] = str(machine.root / "file")
    result = machine.bazelw("info")
    assert result.returncode == 36
    assert "Set XDG_CACHE_HOME" in result.stderr
    assert "Traceback" not in result.stderr


def test_one_remedy() -> None:
    """The message says what is wrong, then what to do."""
    error = ActionableError("it is broken\nbecause", ["Mend it."])
    assert format_error(error) == "bazelw: error: it is broken\n  because\n  What to do: Mend it."


def test_remedies() -> None:
    """A choice of them."""
    error = ActionableError("it is broken", ["Mend it.", "Buy\nanother."])
    assert format_error(error).splitlines() == [
        "bazelw: error: it is broken",
        "  What to do: Mend it.",
        "  Or: Buy",
        "    another.",
    ]


def test_no_remedy() -> None:
    """Just the reason."""
    assert format_error(ActionableError("it is broken")) == "bazelw: error: it is broken"
