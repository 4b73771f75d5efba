"""A user's workspace, copied, and Bazel in it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Startup flags of all commands of a test, as a server that was started with others begins anew.
# In tests a server ends after 15 s without a build, if nobody says otherwise; and its life is too
# short for what Java's better compiler costs.
STARTUP = ("--max_idle_secs=300", "--host_jvm_args=-XX:TieredStopAtLevel=1")

# Repositories of the outer build that nested builds of apps use, too.
FOR_APPS = (
    "executorch_libunicode",
    "executorch_oniguruma",
    "executorch_runner_json",
    "executorch_runtime_linux_x86_64",
)

# What compiles the library that runs programs on this machine.
COMPILERS = ("executorch_libstdcxx_linux_x86_64", "executorch_zig")

# Modules that an example takes and that are not to be had here, by the names of their fakes.
FAKES = {
    "examples/android_app": ("rules_android",),
    "examples/container": ("rules_oci",),
    "examples/ios_app": ("rules_apple", "rules_swift", "rules_swift_package_manager"),
}

# The outer build compiles the runner as users do; that of a nested one runs on small files.
NOT_OPTIMIZED = "--per_file_copt=rules_executorch./tools/runner/@-O0"

# Other commands have no such flags.
_OF_BUILDS = (
    "--extra_toolchains",
    "--incompatible_strict_action_env",
    "--modify_execution_info",
    "--per_file_copt",
)


class Workspace:
    """A copy of an example, or of a workspace of tests/e2e, that can be built and changed.

    The exporter environment of the outer build is used, so that it isn't installed once more.

    Args:
      folder: where to copy it; the output base goes beside it.
      base: name of the output base.
      source: its path in the module; or what writes one, called with its folder and the module's.
      repositories: repositories of the outer build that it uses, too, so that they aren't fetched
        once more; the test needs a file of each.
      compiled_once: whether C++ is not optimized, and comes out of a disk cache that all runs of a
        user's tests share: the library that runs programs takes four minutes of a processor.
        Actions of these rules never do, and neither do tests: Bazel would hash their inputs, which
        include the exporter environment.
    """

    def __init__(
        self,
        folder: Path,
        base: str = "base",
        source: str | Callable[[Path, Path], None] = "tests/e2e/smoke",
        repositories: Sequence[str] = (),
        compiled_once: bool = True,
    ) -> None:
        # The runfile is a link to the source tree: that is the module under test.
        self.module = Path(os.path.realpath("bazelw")).parent
        self.folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.overrides = [_outer_exporter(folder.parent / f"exporter-of-{folder.name}")]
        if compiled_once:
            self.overrides.append(NOT_OPTIMIZED)
            home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
            cache = Path(home, "rules_executorch/compiled_in_tests")
            self.overrides.append(f"--disk_cache={cache}")
            self.overrides.append("--modify_execution_info=^(Et.*|TestRunner)$=+no-cache")
            # Else PATH is part of each compilation, and tests differ in it.
            self.overrides.append("--incompatible_strict_action_env")
        self.use(*repositories)
        self.base = folder.parent / f"{base}-of-{folder.name}"
        self._lay(source)

    @property
    def startup(self) -> list[str]:
        """Startup flags of each command."""
        return [f"--output_base={self.base}", *STARTUP]

    @property
    def settings(self) -> str:
        """A .bazelrc with which commands that a test does not write use the same server."""
        startup = "".join(f"startup {flag}\n" for flag in self.startup)
        return startup + "".join(f"common {flag}\n" for flag in self.overrides)

    def use(self, *repositories: str) -> None:
        """Hands repositories of the outer build to this one, too."""
        for name in repositories:
            place = self.folder.parent / f"{name}-of-{self.folder.name}"
            self.overrides.append(_outer_repository(name, place))

    def lay(self, source: str | Callable[[Path, Path], None]) -> None:
        """Another workspace in the same folder: the server, its workers and what it fetched stay.

        Args:
          source: as for the class.
        """
        # The folder stays the same, and so do outputs of repositories.
        for folder in (self.folder / "bazel-bin", self.folder):
            for path in sorted(folder.iterdir()) if folder.exists() else []:
                if path.name != "external":
                    remove(path)
        self._lay(source)

    def _lay(self, source: str | Callable[[Path, Path], None]) -> None:
        if callable(source):
            source(self.folder, self.module)
            return
        ignored = shutil.ignore_patterns("bazel-*")
        shutil.copytree(self.module / source, self.folder, ignore=ignored, dirs_exist_ok=True)
        up = "/".join([".."] * len(Path(source).parts))
        self.replace("MODULE.bazel", f'path = "{up}"', f'path = "{self.module}"')

    def replace(self, file: str, old: str, new: str) -> None:
        """Changes a file of the workspace."""
        path = self.folder / file
        text = path.read_text()
        assert old in text, f"{file} has no {old!r}"
        path.write_text(text.replace(old, new))

    def run(self, command: str, *arguments: str, **environment: str) -> str:
        """Runs Bazel; returns its output.

        Raises:
          AssertionError: it failed.
        """
        done = self._bazel(command, *self._flags(command), *arguments, **environment)
        assert done.returncode == 0, f"{command} {arguments}:\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def _flags(self, command: str) -> list[str]:
        if command in ("shutdown", "clean"):
            return []
        builds = command in ("aquery", "build", "coverage", "cquery", "run", "test")
        return [flag for flag in self.overrides if builds or not flag.startswith(_OF_BUILDS)]

    def _bazel(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.module / "bazelw", *self.startup, *arguments],
            cwd=self.folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
        )

    def failed(self, *arguments: str, command: str = "build") -> str:
        """Runs a build or test that must fail; returns Bazel's output."""
        done = self._bazel(command, *self._flags(command), *arguments)
        assert done.returncode != 0, f"{arguments} were built"
        return done.stdout + done.stderr

    def build(self, *arguments: str, **environment: str) -> list[str]:
        """Builds; returns "mnemonic label" of each executed action of these rules, sorted."""
        events = self.folder.parent / f"events-{self.folder.name}.json"
        self.run(
            "build",
            f"--build_event_json_file={events}",
            "--build_event_publish_all_actions",
            *arguments,
            **environment,
        )
        ran = []
        for line in events.read_text().splitlines():
            event = json.loads(line)
            action = event.get("action", {})
            if action.get("type", "").startswith("Et"):
                label = event["id"]["actionCompleted"]["label"].removeprefix("@@")
                ran.append(f"{action['type']} {label}")
        return sorted(ran)

    def outputs(self) -> dict[str, str]:
        """sha256 of every .pte and .ptd by file name."""
        matches = {}
        for path in sorted((self.folder / "bazel-bin").iterdir()):
            if path.suffix in (".pte", ".ptd"):
                matches[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return matches

    def close(self) -> None:
        """Ends the server and makes its files removable."""
        self.run("shutdown")
        remove(self.base)


class EmptyWorkspace:
    """A workspace into which tests of repository rules write all files, and its Bazel server.

    Args:
      top: where the workspace and the output base go.
    """

    def __init__(self, top: Path) -> None:
        self.module = Path(os.path.realpath("bazelw")).parent
        self.top = top
        self.folder = top / "workspace"
        self.base = top / "base"
        self.folder.mkdir()

    def clear(self) -> None:
        """Removes what other tests wrote; the server, and what it fetched, stay."""
        for path in self.folder.iterdir():
            remove(path)

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs Bazel, in the test's environment or another."""
        return subprocess.run(
            [self.module / "bazelw", f"--output_base={self.base}", *STARTUP, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
        )

    def close(self) -> None:
        """Ends the server and makes its files removable."""
        self.run("shutdown")
        remove(self.base)


def fakes(module: Path, example: str) -> list[str]:
    """Flags that replace modules of an example by fakes.

    Args:
      module: folder of the module under test.
      example: its path in there: "examples/container".
    """
    folder = module / "tests/integration/fakes"
    return [f"--override_module={name}={folder / name}" for name in FAKES.get(example, ())]


def remove(path: Path) -> None:
    """Removes a file, a link or a folder, of which Bazel may have made parts read-only."""
    if path.is_dir() and not path.is_symlink():
        subprocess.run(["chmod", "-R", "u+w", str(path)], check=False)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink()


def _mark(outer: Path) -> str:
    """Returns what joins the parts of a canonical name: ~ in Bazel 7, + in later ones.

    Args:
      outer: folder of a repository of the outer build's extension.
    """
    return "+" if "+" in outer.name else "~"


def _outer_folder() -> Path:
    """The outer build's exporter environment."""
    stamps = list(Path("..").glob("*executorch_exporter/environment.json"))
    assert stamps, "the test needs @executorch_exporter//:environment.json"
    return Path(os.path.realpath(stamps[0])).parent


def _outer_exporter(folder: Path) -> str:
    """The flag that hands the outer build's exporter environment to the nested one.

    Args:
      folder: where to lay out a repository of links to it.
    """
    outer = _outer_folder()
    mark = _mark(outer)
    folder.mkdir()
    for entry in outer.iterdir():
        if entry.name in ("python", "site-packages", "lite", "environment.json"):
            (folder / entry.name).symlink_to(entry)
    _write_build_file(outer, folder, mark)
    return _override("executorch_exporter", mark, folder)


def _outer_repository(name: str, folder: Path) -> str:
    """The flag that hands a repository of the outer build to the nested one.

    Args:
      name: of the repository.
      folder: where to lay out a repository of links to it.
    """
    matches = list(Path("..").glob(f"*executorch[~+]{name}"))
    assert len(matches) == 1, f"the test needs files of @{name}; there are {matches}"
    outer = Path(os.path.realpath(next(p for p in matches[0].rglob("*") if p.is_symlink())))
    while outer.name != matches[0].name:
        outer = outer.parent
    folder.mkdir()
    for entry in outer.iterdir():
        if entry.name not in ("BUILD.bazel", "REPO.bazel"):
            (folder / entry.name).symlink_to(entry)
    mark = _mark(outer)
    _write_build_file(outer, folder, mark)
    return _override(name, mark, folder)


def _write_build_file(outer: Path, folder: Path, mark: str) -> None:
    """Writes a repository's build file for a build whose main repository are not the rules."""
    text = (outer / "BUILD.bazel").read_text()
    for there in ('load("@@//', 'load("//'):
        text = text.replace(there, f'load("@@rules_executorch{mark}//')
    (folder / "BUILD.bazel").write_text(text)
    (folder / "REPO.bazel").touch()


def outer_overrides(folder: Path) -> list[str]:
    """Flags that hand all that the outer build fetched to one of a copy of its own checkout.

    Args:
      folder: where to lay out repositories of links to it.
    """
    external = _outer_folder().parent
    flags = []
    for outer in sorted(external.glob("_main[~+]*executorch[~+]*")):
        place = folder / outer.name
        place.mkdir(parents=True)
        for entry in outer.iterdir():
            (place / entry.name).symlink_to(entry)
        (place / "REPO.bazel").touch()
        flags.append(f"--override_repository={outer.name}={place}")
    return flags


def environment(home: Path) -> dict[str, str]:
    """The test's environment with another home.

    The folders of caches and settings stay the user's, and nothing is left of the test's Python.
    """
    real = Path(os.environ["HOME"])
    return {
        **{name: text for name, text in os.environ.items() if not name.startswith("PYTHON")},
        "HOME": str(home),
        "XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME") or str(real / ".cache"),
        "XDG_CONFIG_HOME": os.environ.get("XDG_CONFIG_HOME") or str(real / ".config"),
    }


def _override(name: str, mark: str, folder: Path) -> str:
    canonical = mark.join(["rules_executorch", "", "executorch", name])
    return f"--override_repository={canonical}={folder}"
