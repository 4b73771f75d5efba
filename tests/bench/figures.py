"""Sections of pages that come out of the benchmarks' results in `tests/bench/results`.

A page marks such a section with two comments, and `bazel run //docs:update` writes what is between
them. A test fails on a page that says something else than the results:

    <!-- figures: lowering -->
    …
    <!-- end of figures -->

A name of a section is a function below; it takes the results, by file, and returns Markdown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import own_layers_table
import units as units_benchmark
from speed_table import speed_table

Results = Mapping[str, Any]

_SECTION = re.compile(r"(<!-- figures: (.*?) -->\n)(.*?)(<!-- end of figures -->\n)", re.DOTALL)
_NOT_RUN = "<!-- not run: they are of this repository; //tests/bench:commands runs them. -->"
_MARK = re.compile(r"<!-- (?:figures: .*?|end of figures) -->")


def results(folder: Path) -> Results:
    """All results: the contents of each JSON file of a folder, by its name without suffix."""
    files = sorted(folder.glob("*.json"))
    return {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in files}


def updated(page: str, text: str, measured: Results) -> str:
    """A page with its sections as the results have them.

    Raises:
      ValueError: a section is unknown, or has no end.
    """
    sections = _SECTION.findall(text)
    if len(_MARK.findall(text)) != 2 * len(sections):
        raise ValueError(f'{page}: a "figures" comment has no end, or an end has no start.')
    for _, name, _, _ in sections:
        if name not in SECTIONS:
            known = ", ".join(sorted(SECTIONS))
            raise ValueError(f'{page}: unknown section "{name}". Available: {known}.')
    return _SECTION.sub(lambda m: f"{m[1]}{SECTIONS[m[2]](measured)}\n{m[4]}", text)


def commands(measured: Results) -> str:
    """The README's commands with their times."""
    runs = [run for run in measured["commands"]["commands"] if "//tests:fast" not in run["command"]]
    width = max(len(run["command"]) for run in runs)
    lines = [f"{run['command']:{width}}  # {duration(run['seconds'])}" for run in runs]
    return "\n".join(
        [_NOT_RUN, "```sh", *lines, "```", "", f"Times: {_alone(measured['commands'])}."]
    )


def tests(measured: Results) -> str:
    """Renders the times of commands for tests, and the folders of the first one."""
    runs = [run for run in measured["commands"]["commands"] if "tests" in run]
    rows = ["| command | tests | time |", "| --- | --- | --- |"]
    rows += [
        f"| `{run['command']}` | {run['tests']} | {duration(run['seconds'])} |" for run in runs
    ]
    rows += ["", "| folder | tests | sum of their times |", "| --- | --- | --- |"]
    for folder in runs[0]["folders"]:
        rows.append(f"| `{folder['folder']}` | {folder['tests']} | {duration(folder['seconds'])} |")
    return "\n".join([*rows, "", f"Times: {_alone(measured['commands'])}; two tests run at once."])


def lowering(measured: Results) -> str:
    """Upstream's functions against the fast path, stage by stage."""
    figures = measured["lowering"]
    assert figures["same_bytes"]
    ratios = f"**{figures['ratio']:.1f} times less time** and {figures['memory_ratio']:.2f}"
    warm = f"{figures['warm_ratio']:.1f} times in a worker that is up"
    same = f"The same bytes in {ratios} of the memory; {warm}. Measured {_alone(figures)}."
    return "\n".join([*_stages(figures["runs"]), "", same])


def large(measured: Results) -> str:
    """A model of a billion parameters, stage by stage."""
    figures = measured["large"]
    pair = figures["export_llm"]
    took = {
        run["by"]: f"{run['seconds']:.0f} s and {run['peak_memory_bytes'] >> 20:,} MiB"
        for run in pair["runs"]
    }
    compared = (
        f"Upstream's `export_llm` took {took['export_llm']} for the same files, the action "
        f"{took['action']}: {pair['ratio']:.1f} times less time, and {pair['memory_ratio']:.2f} of "
        f"the memory. The action's program is {pair['size_ratio']:.3f} times as large."
    )
    return "\n".join([*_stages(figures["runs"]), "", f"{compared} Measured {_alone(figures)}."])


def _stages(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of lowerings, which have the same stages."""
    titles = {
        "stock": "upstream's functions",
        "fast": "the fast path",
        "warm": "the fast path, in a worker that is up",
    }
    stages = [*runs[-1]["stages"]]
    rows = ["| | " + " | ".join([*stages, "all", "peak memory"]) + " |"]
    rows.append("|" + " --- |" * (len(stages) + 3))
    for run in runs:
        cells = [f"{run['stages'].get(stage, 0):.1f}" for stage in stages]
        cells += [f"**{run['seconds']:.0f} s**", f"{run['peak_memory_bytes'] >> 20:,} MiB"]
        rows.append(f"| {titles[run['path']]} | " + " | ".join(cells) + " |")
    return rows


def growth(measured: Results) -> str:
    """Says how a lowering grows with the depth of a model."""
    figures = measured["growth"]
    of = figures["growth_by_path"]["fast"]
    return (
        f"{of['layers']} layers of SmolLM2-135M take {of['cpu_seconds']:.1f} times as much CPU "
        f"time as {of['against']}, {_alone(figures)}."
    )


def task_memory(measured: Results) -> str:
    """Memory and load times of a language model with tasks on its weights."""
    figures = measured["task_memory"]
    rows = ["| programs in one process | memory | by name | without the cache | last load |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for row in figures["rows"]:
        tasks = f" and {row['tasks']} task{'s' if row['tasks'] > 1 else ''}"
        programs = "the base" + (tasks if row["tasks"] else "")
        memory = (row["memory"], row["by_name"]["memory"], row["without_cache"])
        cells = [f"{one['resident_bytes'] >> 20} MiB" for one in memory]
        rows.append(f"| {programs} | {' | '.join(cells)} | {row['load_ms'][-1]:.0f} ms |")
    return "\n".join([*rows, "", f"Measured {_alone(figures)}."])


def export_llm(measured: Results) -> str:
    """Upstream's `export_llm` against the action of et_llm."""
    figures = measured["export_llm"]
    return (
        f"For {figures['layers']} layers of SmolLM2-135M and one YAML file, upstream's "
        f"`export_llm` took {figures['cpu_ratio']:.1f} times as much CPU time as the action of "
        f"`et_llm`. Measured {_alone(figures)}."
    )


def rebuilds(measured: Results) -> str:
    """The actions that run after each kind of change."""
    rows = ["| change | actions |", "| --- | --- |"]
    for case in measured["rebuilds"]["cases"].values():
        ran = ", ".join(f"{count} {kind}" for kind, count in case["actions"].items() if count)
        rows.append(f"| {case['title']} | {ran or 'none'} |")
    return "\n".join(rows)


def sharing(measured: Results) -> str:
    """Bytes of a base and two tasks that share a foundation."""
    figures = measured["sizes"]
    of, alone = figures["shared"], figures["program_bytes"]
    titles = {
        "foundation.ptd": "`foundation.ptd`",
        "base.pte": "`base.pte`",
        "assistant.pte": "the tasks' `.pte`",
        "assistant.ptd": "`assistant.ptd`",
        "summarizer.ptd": "`summarizer.ptd`",
    }
    total = sum(of[file] for file in titles)
    rows = ["| file | bytes |", "| --- | --- |"]
    rows += [f"| {title} | {of[file]:,} |" for file, title in titles.items()]
    rows.append(f"| **three programs on one foundation** | **{total:,}** |")
    rows.append(f"| the base alone, with its weights in the `.pte` | {alone:,} |")
    return "\n".join(rows)


def cache_sizes(measured: Results) -> str:
    """Says how much of a language model a cache holds, and an executor besides."""
    figures = measured["sizes"]
    environment = figures["environment"]
    lowered, linked = (figures[name] / 1e6 for name in ("lowered_bytes", "program_bytes"))
    return (
        f"SmolLM2-135M in 4 bits takes {lowered:.0f} MB lowered and {linked:.0f} MB linked. The "
        f"exporter's environment, which only executors store, has {environment['files']:,} files "
        f"and {environment['bytes'] / 1e9:.1f} GB."
    )


def shared_memory(measured: Results) -> str:
    """Memory of one program and of two with the same weights."""
    rows = ["| weight cache | resident with one | with both | the second adds |"]
    rows.append("| --- | --- | --- | --- |")
    for row in measured["shared_memory"]["rows"]:
        one, two = (row[key]["resident_bytes"] / 2**20 for key in ("one_program", "two_programs"))
        cache = "on" if row["weight_cache"] else "off"
        rows.append(f"| {cache} | {one:.0f} MiB | {two:.0f} MiB | {two - one:.1f} MiB |")
    return "\n".join(rows)


def speed(measured: Results) -> str:
    """Variants of a language model in upstream's runner."""
    return "\n".join([speed_table(measured["speed"]), "", f"Measured {_alone(measured['speed'])}."])


def own_layers(measured: Results) -> str:
    """Layers of et_llm in place of transformers', by whole models."""
    figures = measured["own_layers"]
    return "\n".join([own_layers_table.table(figures), "", f"Measured {_alone(figures)}."])


def units(measured: Results) -> str:
    """Renders what each unit of the fast path saves."""
    return units_benchmark.table(measured["units"]["models"])


def architectures(measured: Results) -> str:
    """Architectures of transformers: how many run by task, and each one's result."""
    rows = measured["huggingface"]
    counts = ["| task | recipe | measured | ran | share |", "| --- | --- | --- | --- | --- |"]
    for recipe in ("fp32", "8da4w"):
        own_rows = [row for row in rows if row["recipe"] == recipe]
        for task in sorted({row["task"] for row in own_rows}):
            counts.append(_count(task, recipe, [row for row in own_rows if row["task"] == task]))
        if own_rows:
            counts.append(_count("**all tasks**", recipe, own_rows))
    table = ["| architecture | task | class | recipe | result |", "| --- | --- | --- | --- | --- |"]
    for row in sorted(rows, key=lambda row: (row["architecture"], row["recipe"] != "fp32")):
        result = row["result"]
        if "arguments" in row:
            given = ", ".join(f"{name} = {value}" for name, value in row["arguments"].items())
            result += f" with `{given}`"
        if "reason" in row:
            result += f": `{_inline(row['reason'])}`"
        named = f"`{row['architecture']}` | {row['task']} | `{row['class']}`"
        table.append(f"| {named} | {row['recipe']} | {result} |")
    return "\n".join([*counts, "", *table])


def _count(task: str, recipe: str, rows: Sequence[Mapping[str, str]]) -> str:
    ran = sum(row["result"] == "ran" for row in rows)
    return f"| {task} | {recipe} | {len(rows)} | {ran} | {100 * ran // len(rows)} % |"


def _inline(reason: str) -> str:
    """A reason as code in a table's cell, without the name of the matrix's target."""
    return re.sub(r"//m:\S+: ", "", reason).replace("`", "'").replace("|", "/")


def backends(measured: Results) -> str:
    """Programs of each backend: how many were lowered, and what they ran in."""
    by_backend: dict[str, list[Mapping[str, Any]]] = {}
    for entry in measured["backends"]["programs"].values():
        by_backend.setdefault(entry["backend"], []).append(entry)
    rows = ["| backend | programs lowered | ran | in | SQNR, least of each program |"]
    rows.append("| --- | --- | --- | --- | --- |")
    for backend, entries in sorted(by_backend.items()):
        ran = [entry for entry in entries if "runs_in" in entry]
        where = "; ".join(sorted({entry["runs_in"] for entry in ran}))
        ratios = sorted(e["sqnr_db"] for e in ran if e["sqnr_db"] is not None)
        cell = f"{ratios[0]:.0f} to {ratios[-1]:.0f} dB" if ratios else "–"
        name = f"`//backends/{backend}`"
        rows.append(f"| {name} | {len(entries)} | {len(ran)} | {where or '–'} | {cell} |")
    return "\n".join([*rows, "", f"Measured {_alone(measured['backends'])}."])


def duration(seconds: float) -> str:
    """A time for people: "5 s", "2 min"."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _alone(figures: Mapping[str, Any]) -> str:
    of = figures["machine"]
    return f"on {of['cores']} cores with {of['memory_gib']} GiB of memory, {of['date']}"


SECTIONS: dict[str, Callable[[Results], str]] = {
    "architectures": architectures,
    "backends": backends,
    "cache_sizes": cache_sizes,
    "commands": commands,
    "export_llm": export_llm,
    "growth": growth,
    "large": large,
    "lowering": lowering,
    "own_layers": own_layers,
    "rebuilds": rebuilds,
    "shared_memory": shared_memory,
    "sharing": sharing,
    "speed": speed,
    "task_memory": task_memory,
    "tests": tests,
    "units": units,
}
