"""A workspace of many programs: models, shared foundations, tests, apps.

    monorepo.py FOLDER --programs 2000 --foundations 40 --apps 10

Programs are tiny, so that all of them can be built: a body that all of a foundation have, and a
head of their own. There are as many foundations and apps however many programs there are.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_NETS = '''\
"""A body that the programs of a foundation have in common, and heads of their own."""

import torch
from lib.layers import body


class Task(torch.nn.Module):
    def __init__(self, foundation, head):
        super().__init__()
        self.body = body(foundation)
        torch.manual_seed(head)
        self.head = torch.nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.body(x))


def base(ctx):
    return body(int(ctx.args["foundation"])), (torch.ones(1, 8),)


def task(ctx):
    return Task(int(ctx.args["foundation"]), int(ctx.args["head"])), (torch.ones(1, 8),)
'''

_LAYERS = '''\
"""What all models import."""

import torch


def body(seed):
    torch.manual_seed(seed)
    first, last = torch.nn.Linear(8, 64), torch.nn.Linear(64, 8)
    return torch.nn.Sequential(first, torch.nn.ReLU(), last)
'''

_MODULE = """\
module(name = "monorepo")

bazel_dep(name = "rules_executorch", version = "0.1.0")
bazel_dep(name = "rules_python", version = "1.7.0")
local_path_override(
    module_name = "rules_executorch",
    path = "{module}",
)
"""

_LIB = """\
load("@rules_python//python:defs.bzl", "py_library")

py_library(
    name = "lib",
    srcs = ["layers.py"],
    visibility = ["//visibility:public"],
)
"""

_RECIPES = """\
load("@rules_executorch//rules:defs.bzl", "et_recipe")

package(default_visibility = ["//visibility:public"])

et_recipe(
    name = "fp32",
    base = "@rules_executorch//backends/xnnpack:fp32",
)
"""

_FOUNDATION = """\
load(
    "@rules_executorch//rules:defs.bzl",
    "et_model",
    "et_program",
    "et_program_test",
    "et_shared_data",
)

package(default_visibility = ["//visibility:public"])

et_model(
    name = "base",
    srcs = ["//:nets.py"],
    args = {{"foundation": "{foundation}"}},
    entry_point = "nets:base",
    deps = ["//lib"],
)

et_shared_data(
    name = "foundation",
    model = ":base",
    recipe = "//recipes:fp32",
)
"""

_PROGRAM = """
et_model(
    name = "task_{number}_model",
    srcs = ["//:nets.py"],
    args = {{
        "foundation": "{foundation}",
        "head": "{number}",
    }},
    entry_point = "nets:task",
    deps = ["//lib"],
)

et_program(
    name = "task_{number}",
    model = ":task_{number}_model",
    recipe = "//recipes:fp32",
    shared_data = [":foundation"],
)

et_program_test(
    name = "task_{number}_test",
    program = ":task_{number}",
)
"""

_APPS = """\
load("@rules_executorch//rules:defs.bzl", "et_runner_app")
"""

_APP = """
et_runner_app(
    name = "{name}",
    programs = [
{programs}    ],
)
"""


@dataclass(frozen=True)
class Monorepo:
    """The size of a workspace.

    Attributes:
        programs: number of et_program targets, each with a model and a test.
        foundations: number of et_shared_data targets; a package each.
        apps: number of et_runner_app targets in //apps; each has all programs of one foundation.
            //apps/first is one more, with a single program.
    """

    programs: int
    foundations: int = 40
    apps: int = 10

    def package(self, number: int) -> str:
        """Name of the package of a program's foundation."""
        return f"foundation_{number % self.foundations:02}"

    def write(self, folder: Path, module: Path) -> None:
        """Writes the workspace; what another size left in the folder goes.

        Args:
            folder: where.
            module: the checkout of these rules.

        Raises:
            ValueError: there are more foundations than programs, or more apps than foundations.
        """
        if not self.apps <= self.foundations <= self.programs:
            raise ValueError(f"{self}: wanted apps <= foundations <= programs")
        for old in [*folder.glob("foundation_*"), folder / "apps"]:
            shutil.rmtree(old, ignore_errors=True)
        _write(folder / "MODULE.bazel", _MODULE.format(module=module))
        _write(folder / "BUILD.bazel", 'exports_files(["nets.py"])\n')
        _write(folder / "nets.py", _NETS)
        _write(folder / "lib/layers.py", _LAYERS)
        _write(folder / "lib/BUILD.bazel", _LIB)
        _write(folder / "recipes/BUILD.bazel", _RECIPES)
        for foundation in range(self.foundations):
            numbers = range(foundation, self.programs, self.foundations)
            text = _FOUNDATION.format(foundation=foundation)
            text += "".join(_PROGRAM.format(number=n, foundation=foundation) for n in numbers)
            _write(folder / self.package(foundation) / "BUILD.bazel", text)
        apps = [
            self._app(f"app_{app}", range(app, self.programs, self.foundations))
            for app in range(self.apps)
        ]
        _write(folder / "apps/BUILD.bazel", _APPS + "".join(apps))
        _write(folder / "apps/first/BUILD.bazel", _APPS + self._app("first", [0]))

    def _app(self, name: str, programs: Iterable[int]) -> str:
        labels = "".join(f'        "//{self.package(n)}:task_{n}",\n' for n in programs)
        return _APP.format(name=name, programs=labels)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main() -> None:
    """Writes a workspace."""
    parser = argparse.ArgumentParser(prog="monorepo", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--foundations", type=int, default=40)
    parser.add_argument("--apps", type=int, default=10)
    parser.add_argument("--module", type=Path, default=Path(__file__).resolve().parents[3])
    given = parser.parse_args()
    made = Monorepo(given.programs, given.foundations, given.apps)
    made.write(given.folder, given.module)


if __name__ == "__main__":
    main()
