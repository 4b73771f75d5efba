"""Benchmark: a user's build after a change, against the first build of the same programs.

    ./bazelw run //tests/bench:rebuilds -- [--pairs N] [--layers 2] [--json FILE] [--svg FILE]

A user's workspace has a language model and a task with a LoRA adapter on one foundation. Each round
builds all of it from nothing, without any cache and with new workers, and then once more after each
change. Fetching, and the start of Bazel's servers, are not part of it.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import struct
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import actions
import bazel_profile
import drawing
from dev.remote import HttpCache, load_engines
from nested import Workspace

_TARGETS = ("//:llama", "//:tiny_base", "//:tiny_assistant")
_ADAPTER = "assistant/adapter_model.safetensors"

_MODULE = """\
module(name = "rebuilds")

bazel_dep(name = "rules_executorch", version = "0.1.0")
local_path_override(
    module_name = "rules_executorch",
    path = "{module}",
)
"""

_BUILD = """\
load("@rules_executorch//models/tasks:sharing.bzl", "task_programs")
load("@rules_executorch//rules:defs.bzl", "et_model", "et_program", "et_recipe")

et_recipe(
    name = "int4",
    base = "@rules_executorch//backends/xnnpack:int8_dynamic_act_int4_weight",
    options = {{"group_size": "32"}},
)

[
    et_model(
        name = name,
        srcs = ["llama.py"],
        args = {{
            "backends": "xnnpack",
            "layers": "{layers}",
        }},
        adapter = glob(adapter, allow_empty = True),
        adapter_entry_point = "llama:adapter" if adapter else "",
        data = [
            "llm.yaml",
            "model.gguf",
        ],
        entry_point = "llama:build",
        memory_mb = 4000,
        deps = ["@rules_executorch//tools/etllm"],
    )
    for name, adapter in {{
        "llama_model": [],
        "llama_assistant_model": ["assistant/*"],
    }}.items()
]

et_program(
    name = "llama",
    model = ":llama_model",
    recipe = ":int4",
)

task_programs(
    name = "tiny",
    base = "llama",
    lowering = ":llama",
    recipe = ":int4",
    tasks = ["assistant"],
)
"""

_MODEL = """\
from etllm import entry


def build(ctx):
    # The layers, the cache and the methods are those of et_llm.
    spec = entry.build(ctx)
    spec.methods["forward"].module.transformer.norm.eps *= 1
    return spec


def adapter(ctx):
    return entry.adapter(ctx)
"""

# Case to what it replaces in which file; each stays in place for the ones behind it.
_EDITS = {
    "comment": (
        "llama.py",
        "# The layers, the cache and the methods",
        "# Layers, cache and methods",
    ),
    "graph_line": (
        "llama.py",
        "eps *= 1",
        "eps *= 2",
    ),
    "recipe_option": (
        "BUILD.bazel",
        '{"group_size": "32"}',
        '{"group_size": "64"}',
    ),
}
_KINDS = ("EtLower", "EtAdapt", "EtLink", "EtShare")
_TITLES = {
    "first": "nothing is built yet",
    "nothing": "nothing",
    "comment": "a comment in the model's code",
    "graph_line": "a line of the model's code that changes the graph",
    "recipe_option": "an option of the recipe",
    "adapter": "the values of an adapter",
    "disk_cache": "nothing, after `bazel clean`, with a disk cache",
    "second_client": "nothing, on a second client with a remote cache (nginx)",
}


@dataclass(frozen=True)
class Built:
    """The result of a build.

    Attributes:
        seconds: on the clock, of the command.
        ran: how many actions of ours ran, by their kind.
        cached: how many did not, as a cache has what they write; Bazel's own is one, too.
    """

    seconds: float
    ran: dict[str, int]
    cached: dict[str, int]


def main() -> None:
    """Runs the rounds; prints and writes the results."""
    parser = argparse.ArgumentParser(prog="rebuilds", description=__doc__)
    parser.add_argument("--pairs", type=int, default=1, help="rounds of all cases")
    parser.add_argument("--layers", type=int, default=2, help="of the model's 30")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--svg", type=Path, help="file to draw the seconds to")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rebuilds", dir="/var/tmp") as scratch:
        first = _client(Path(scratch), "first", given.layers)
        second = _client(Path(scratch), "second", given.layers)
        rounds = []
        try:
            for number in range(given.pairs):
                _write_sources(first.folder, first.module, given.layers)
                rounds.append(_round(first, second, Path(scratch), number))
        finally:
            for client in (first, second):
                client.close()
    results = figures(rounds)
    print(f"\n{'change':<52}{'seconds':>9}{'of first':>10}  ran")
    for case in results["cases"].values():
        ran = ", ".join(f"{n} {kind}" for kind, n in case["actions"].items() if n)
        print(f"{case['title']:<52}{case['seconds']:>9.1f}{case['ratio_to_first']:>10.3f}  {ran}")
    actions.write_json(given.json, results)
    cases = results["cases"].values()
    rows = [(case["title"], {"build": case["seconds"]}, case["seconds"]) for case in cases]
    actions.write_text(given.svg, lambda: drawing.bars(rows))


def figures(rounds: list[dict[str, Built]]) -> dict[str, Any]:
    """Medians over rounds, and the actions of the last one."""
    cases = {}
    for name, last in rounds[-1].items():
        ratios = [one[name].seconds / one["first"].seconds for one in rounds]
        cases[name] = {
            "title": _TITLES[name],
            "seconds": statistics.median(one[name].seconds for one in rounds),
            "ratio_to_first": statistics.median(ratios),
            "actions": {kind: last.ran.get(kind, 0) for kind in _KINDS},
            "from_cache": last.cached,
        }
    rounds_seconds = [{name: built.seconds for name, built in one.items()} for one in rounds]
    return {"machine": actions.machine(), "cases": cases, "rounds": rounds_seconds}


def _client(scratch: Path, name: str, layers: int) -> Workspace:
    """A workspace with its own server, which has fetched everything that a build needs."""

    def write(folder: Path, module: Path) -> None:
        folder.mkdir()
        (folder / "MODULE.bazel").write_text(_MODULE.format(module=module))
        _write_sources(folder, module, layers)
        shutil.copyfile(module / "tools/dev/remote/remote.bazelrc", folder / ".bazelrc")
        [gguf] = Path("..").glob("*smollm2/model.gguf")
        (folder / "model.gguf").symlink_to(gguf.resolve())

    client = Workspace(scratch / name, source=write, compiled_once=False)
    client.run("build", "--nobuild", *_TARGETS)
    return client


def _write_sources(folder: Path, module: Path, layers: int) -> None:
    """Writes the user's files in their original state."""
    (folder / "BUILD.bazel").write_text(_BUILD.format(layers=layers))
    (folder / "llama.py").write_text(_MODEL)
    shutil.copyfile(module / "models/smollm2_tiny.yaml", folder / "llm.yaml")
    shutil.copytree(module / "models/adapters/assistant", folder / "assistant", dirs_exist_ok=True)


def _round(first: Workspace, second: Workspace, scratch: Path, number: int) -> dict[str, Built]:
    """Runs all cases in order."""
    results: dict[str, Built] = {}

    def build(name: str, client: Workspace, *flags: str) -> None:
        results[name] = _timed(client, *flags)
        print(f"{_TITLES[name]}: {results[name].seconds:.1f} s", flush=True)

    first.run("clean")
    build("first", first)
    build("nothing", first)
    for name, edit in _EDITS.items():
        first.replace(*edit)
        build(name, first)
    _change_numbers(first.folder / _ADAPTER, number)
    build("adapter", first)
    disk = f"--disk_cache={scratch}/disk{number}"
    first.run("clean")
    first.run("build", disk, *_TARGETS)
    first.run("clean")
    build("disk_cache", first, disk)
    with HttpCache(load_engines()) as server:
        first.run("clean")
        first.run("build", *server.flags, *_TARGETS)
        for file in ("BUILD.bazel", "llama.py", _ADAPTER):
            shutil.copyfile(first.folder / file, second.folder / file)
        second.run("clean")
        build("second_client", second, *server.flags)
    shutil.rmtree(f"{scratch}/disk{number}")
    return results


def _timed(client: Workspace, *flags: str) -> Built:
    profile = client.folder.parent / f"profile-{client.folder.name}.json"
    start = time.monotonic()
    client.run("build", f"--profile={profile}", *flags, *_TARGETS)
    seconds = time.monotonic() - start
    return Built(seconds, *bazel_profile.counted(json.loads(profile.read_text())["traceEvents"]))


def _change_numbers(path: Path, seed: int) -> None:
    """Writes other values into a .safetensors file of float16, with the same names and shapes."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    start, draw = 8 + length, random.Random(seed)
    values = [draw.gauss(0, 0.02) for _ in range((len(data) - start) // 2)]
    path.write_bytes(data[:start] + struct.pack(f"<{len(values)}e", *values))


if __name__ == "__main__":
    main()
