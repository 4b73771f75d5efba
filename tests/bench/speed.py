"""Benchmark: how fast a language model's programs run, in variants and against upstream's own.

    ./bazelw run //tests/bench:speed -- [--rounds N] [--json FILE] [--llama_cpp FOLDER]

All programs have the weights of SmolLM2-135M in 4 bits; speed.bzl lists the variants. Upstream's
`export_llm` makes its program of the same weights, with the keys that upstream recommends for
XNNPACK. Each measurement is a process of its own, in which
upstream's `TextLLMRunner` reads a prompt and writes tokens. A round measures all programs; the next
round does so backwards. The medians count.

With `--llama_cpp`, the folder node_modules of node-llama-cpp, llama.cpp takes its turn in each
round, with the same weights in Q4_0 and as many threads.

Perplexity is of this repository's LICENSE: a well-known text, so compare the values, and do not
read them as the model's quality.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import actions
import llama_cpp
from speed_table import speed_table

CONTEXTS = (512, 2048, 8192)
# Which takes more than ten minutes to lower its program at a context of 8,192.
_UPSTREAMS = "export_llm"
# Files of programs, by variant.
_OURS = "speed_programs_%s_%d_xnnpack.pte"
VARIANTS = {
    "plain": _OURS,
    "embedding_4": _OURS,
    _UPSTREAMS: "speed_%s_%d.pte",
}
# In a call: upstream's program takes one less than its max_seq_length.
_PROMPT, _WRITTEN = 127, 64
# Of the text whose perplexity is measured.
_TOKENS = 384
_FOLDER = Path("tests/bench")
_TOKENIZER = _FOLDER / "speed_programs_plain_512_tokenizer/tokenizer.json"


def main() -> None:
    """Measures all programs, or one where the command line names it."""
    parser = argparse.ArgumentParser(prog="speed", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--llama_cpp", type=Path, help="node_modules with node-llama-cpp")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        kind, program = given.measure
        figures = _perplexity(program) if kind == "perplexity" else _run(program, int(kind))
        print(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory() as folder:
        programs = _programs(given.llama_cpp, Path(folder))
        rows = [_row(program) for program in programs]
        _time(programs, rows, given.rounds)
    results = {"machine": actions.machine(), "programs": rows}
    actions.write_json(given.json, results)
    print(speed_table(results))


@dataclass(frozen=True)
class _Program:
    """A row of the table.

    Attributes:
      variant: its name.
      context: tokens of the longest conversation.
      path: the file with its weights.
      modules: node_modules with the program that reads the file; None: ExecuTorch's runner does.
    """

    variant: str
    context: int
    path: Path
    modules: Path | None = None

    def run(self, tokens: int) -> dict[str, float]:
        """Reads so many tokens and writes 64, in a process of its own."""
        if self.modules is None:
            return json.loads(_child(__file__, "--measure", str(tokens), str(self.path)))
        cores = actions.machine()["cores"]
        return llama_cpp.run(self.modules, self.path, self.context, tokens, _WRITTEN, cores)


def _programs(modules: Path | None, folder: Path) -> list[_Program]:
    """All that is measured; files for llama.cpp are written into the folder."""
    programs = [
        _Program(variant, context, _FOLDER / (name % (variant, context)))
        for context in CONTEXTS
        for variant, name in VARIANTS.items()
        if context in CONTEXTS[:2] or variant != _UPSTREAMS
    ]
    if modules is None:
        return programs
    [checkpoint] = Path("..").glob("*smollm2/model.gguf")
    path = folder / "q4_0.gguf"
    llama_cpp.write_q4_0(checkpoint, path)
    name = f"llama.cpp (node-llama-cpp {llama_cpp.version(modules)}), Q4_0"
    return [*programs, *(_Program(name, context, path, modules) for context in CONTEXTS)]


def _row(program: _Program) -> dict[str, Any]:
    """Returns the part of a row that doesn't depend on the clock."""
    row = {
        "variant": program.variant,
        "context": program.context,
        "bytes": program.path.stat().st_size,
    }
    if program.modules is None:
        row |= json.loads(_child(__file__, "--measure", "perplexity", str(program.path)))
    return row


def _time(programs: Sequence[_Program], rows: Sequence[dict[str, Any]], rounds: int) -> None:
    """Adds tokens per second and memory to the rows."""
    runs: list[list[dict[str, Any]]] = [[] for _ in programs]
    for number in range(rounds):
        order = range(len(programs)) if number % 2 == 0 else reversed(range(len(programs)))
        for index in order:
            program = programs[index]
            # The prompt of the second one fills the context but for what is written.
            short = program.run(_PROMPT)
            full = program.run(program.context - _WRITTEN - 1)
            figures = {
                "read": short["read"],
                "read_full": full["read"],
                "write": short["write"],
                "write_full": full["write"],
            }
            if "memory_bytes" in full:
                figures["memory_bytes"] = full["memory_bytes"]
            runs[index].append(figures)
            print(program.variant, program.context, figures, flush=True)
    for row, of_program in zip(rows, runs, strict=True):
        for key in of_program[0]:
            row[key] = statistics.median(run[key] for run in of_program)


def _child(script: str, *words: str) -> str:
    """The last line that a script prints, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, script, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.rstrip().rpartition("\n")[2]


def _text() -> str:
    return Path("LICENSE").read_text(encoding="utf-8")


def _run(program: str, prompt_tokens: int) -> dict[str, float]:
    """Reads a prompt and writes tokens; it runs in a process of its own."""
    from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner

    _load_operators()
    before = _resident()
    runner = TextLLMRunner(program, str(_TOKENIZER))
    settings = {"echo": False, "max_new_tokens": _WRITTEN, "temperature": 0.0}
    from etllm.tokenizer.text import load_tokenizer

    tokenizer = load_tokenizer(_TOKENIZER)
    tokens = tokenizer.encode(_text(), add_special_tokens=False).ids
    tokens *= prompt_tokens // len(tokens) + 1
    # The first call packs weights, which later ones find packed.
    runner.generate("A", GenerationConfig(**(settings | {"max_new_tokens": 2})))
    runner.reset()
    *earlier, last = range(0, prompt_tokens, _PROMPT)
    started = time.perf_counter()
    for start in earlier:
        runner.prefill(
            tokenizer.decode(tokens[start : start + _PROMPT]), GenerationConfig(**settings)
        )
    seconds = time.perf_counter() - started
    stats: list[dict[str, Any]] = []
    runner.generate(
        tokenizer.decode(tokens[last:prompt_tokens]),
        GenerationConfig(**settings),
        None,
        lambda of_call: stats.append(json.loads(of_call.to_json_string())),
    )
    [figures] = stats
    if figures["generated_tokens"] < 16:
        sys.exit(f"{program}: expected at least 16 tokens behind {prompt_tokens}, got {figures}.")
    seconds += (prompt_tokens - last) / figures["prefill_token_per_sec"]
    return {
        "read": prompt_tokens / seconds,
        "write": figures["decode_token_per_sec"],
        "memory_bytes": _resident() - before,
    }


def _perplexity(program: str) -> dict[str, float]:
    from etcli.measure import language
    from etllm.tokenizer.text import load_tokenizer

    _load_operators()
    tokens = load_tokenizer(_TOKENIZER).encode(_text(), add_special_tokens=False).ids[:_TOKENS]
    score = language.score(_Steps(program), tokens, _TOKENS, lambda _: None)
    return {"perplexity": score.perplexity}


class _Steps:
    """A program in ExecuTorch's runtime for Python, a token at a time.

    Attributes:
      most: tokens of a call: upstream's program returns the last one's logits only, as ours does.
    """

    most = 1

    def __init__(self, path: str) -> None:
        from executorch.runtime import Runtime

        self._program = Runtime.get().load_program(path)
        self.restart()

    def restart(self) -> None:
        self._forward = self._program.load_method("forward")

    def put(self, tokens: Sequence[int], position: int) -> Any:
        import torch

        inputs = [torch.tensor([list(tokens)]), torch.tensor([position])]
        [logits] = self._forward.execute(inputs)
        return logits.reshape(1, -1).float().clone()


def _load_operators() -> None:
    """Registers upstream's attention and embeddings, which the runtime takes from libraries."""
    import executorch.extension.llm.custom_ops.custom_ops
    import executorch.kernels.quantized  # noqa: F401


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
