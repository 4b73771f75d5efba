"""Benchmark: layers of et_llm in place of transformers', by whole models.

    ./bazelw run //tests/bench:own_layers -- FOLDER [--only REGEX] [--rounds N] [--json FILE]

Checkpoints of random weights have the shapes of real models. One YAML file makes two programs of
each, in 8da4w with XNNPACK: with the layers of et_llm, which its families take, and with the
modeling code of transformers, which others take. A process of its own lowers each; seconds are the
processor's. Each measurement is a process, too: the runner's library reads a prompt and writes
tokens, with an empty context and to its end. A round measures both programs; the next round does so
backwards. The medians count.

Programs and figures stay in the folder: what is there is not lowered again, and the JSON file has
all that is there. Without rounds, programs are lowered only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import actions
from etllm.variants import SPEEDS
from own_layers_table import OWN, TRANSFORMERS, table

CONTEXTS = (512, 2048)
# Of config.json on the hub.
_LLAMA = {"model_type": "llama", "tie_word_embeddings": True}
MODELS: dict[str, dict[str, Any]] = {
    "SmolLM2-135M": _LLAMA
    | {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_attention_heads": 9,
        "num_hidden_layers": 30,
        "num_key_value_heads": 3,
        "rope_parameters": {"rope_theta": 100_000.0, "rope_type": "default"},
        "vocab_size": 49_152,
    },
    "Qwen3-0.6B": {
        "head_dim": 128,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "model_type": "qwen3",
        "num_attention_heads": 16,
        "num_hidden_layers": 28,
        "num_key_value_heads": 8,
        "rope_parameters": {"rope_theta": 1_000_000.0, "rope_type": "default"},
        "tie_word_embeddings": True,
        "vocab_size": 151_936,
    },
    "Llama-3.2-1B": _LLAMA
    | {
        "head_dim": 64,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_attention_heads": 32,
        "num_hidden_layers": 16,
        "num_key_value_heads": 8,
        "rope_parameters": {
            "factor": 32.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 8192,
            "rope_theta": 500_000.0,
            "rope_type": "llama3",
        },
        "vocab_size": 128_256,
    },
}
# In a call, and behind each prompt.
_PROMPT, _WRITTEN = 127, 32
_LABEL = "//tests/bench:own_layers"
_YAML = """\
model:
  use_kv_cache: true
export:
  max_seq_length: 128
  max_context_length: {context}
quantization:
  qmode: 8da4w
  group_size: 32
  use_hqq: false
  embedding_quantize: 8,32
backend:
  xnnpack:
    enabled: true
"""


def main() -> None:
    """Lowers and measures all programs, or does one step in a process of its own."""
    parser = argparse.ArgumentParser(prog="own_layers", description=__doc__)
    parser.add_argument("folder", type=Path, help="where programs and figures are kept")
    parser.add_argument("--only", default="", help="names of programs: a regular expression")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    parser.add_argument("--step", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = actions.output(given.folder)
    if given.step:
        model, context, by, step = given.step
        program = _Program(folder, model, int(context), by)
        print(json.dumps(_lower(program) if step == "lower" else _run(program)))
        return
    programs = [
        _Program(folder, model, context, by)
        for model in MODELS
        for context in CONTEXTS
        for by in (OWN, TRANSFORMERS)
    ]
    chosen = [program for program in programs if re.search(given.only, program.name)]
    for program in chosen:
        if not program.figures.exists():
            program.write(_child(program, "lower"))
    _measure(chosen, given.rounds)
    figures = {
        "machine": actions.machine(),
        "programs": [program.read() for program in programs if program.figures.exists()],
    }
    actions.write_json(given.json, figures)
    print(table(figures))


@dataclass(frozen=True)
class _Program:
    """A program, and its row of figures.

    Attributes:
      folder: of all files.
      model: its name in MODELS.
      context: tokens of the longest conversation.
      by: whose layers it has.
    """

    folder: Path
    model: str
    context: int
    by: str

    @property
    def name(self) -> str:
        """Of its files, without suffix."""
        return f"{self.model}_{self.context}_{self.by}"

    @property
    def path(self) -> Path:
        """The .pte file."""
        return self.folder / f"{self.name}.pte"

    @property
    def figures(self) -> Path:
        """The file with its figures."""
        return self.folder / f"{self.name}.json"

    def read(self) -> dict[str, Any]:
        """Its figures so far."""
        return json.loads(self.figures.read_text(encoding="utf-8"))

    def write(self, more: dict[str, Any]) -> None:
        """Adds figures."""
        row = {"model": self.model, "context": self.context, "by": self.by}
        row |= (self.read() if self.figures.exists() else {}) | more
        self.figures.write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")


def _measure(programs: list[_Program], rounds: int) -> None:
    runs: dict[_Program, list[dict[str, float]]] = {program: [] for program in programs}
    for number in range(rounds):
        for program in programs if number % 2 == 0 else reversed(programs):
            runs[program].append(_child(program, "run"))
            print(program.name, runs[program][-1], flush=True)
    for program, of_program in runs.items():
        if of_program:
            medians = {key: statistics.median(run[key] for run in of_program) for key in SPEEDS}
            program.write(medians)


def _child(program: _Program, step: str) -> dict[str, Any]:
    """Does a step in a process of its own; returns the figures of its last line."""
    words = [str(program.folder), "--step", program.model, str(program.context), program.by, step]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.rstrip().rpartition("\n")[2])


def _lower(program: _Program) -> dict[str, Any]:
    """Writes a program; the seconds exclude imports and the checkpoint's making."""
    from etbuild import ModelContext, Options, RecipeContext
    from etfast import path
    from etllm import entry, recipes, replacements
    from etlower import lower, stages
    from etlower.progress import Progress

    def no_layers(*_: object) -> None:
        raise replacements.NotReplaced("the benchmark asks for the modeling code")

    lower.preload()
    with tempfile.TemporaryDirectory(dir=program.folder) as checkpoint:
        _write_checkpoint(MODELS[program.model], Path(checkpoint))
        yaml = Path(checkpoint, "llm.yaml")
        yaml.write_text(_YAML.format(context=program.context), encoding="utf-8")
        files = {f"m/{file.name}": file for file in Path(checkpoint).iterdir()}
        if program.by == TRANSFORMERS:
            entry.open_checkpoint = no_layers
        before = os.times()
        with path.chosen("fast"):
            spec = entry.build(ModelContext({"backends": "xnnpack"}, files, _LABEL))
            options = Options({"backend": "xnnpack"}, _LABEL)
            recipe = recipes.build(RecipeContext(options, _LABEL, {yaml.name: yaml}))
            manager = stages.run(spec, recipe, Progress(), _LABEL, etrecord=False)
            with program.path.open("wb") as file:
                manager.write_to_file(file)
        seconds = sum(os.times()[:4]) - sum(before[:4])
    return {"lowering_cpu_seconds": seconds, "bytes": program.path.stat().st_size}


def _write_checkpoint(values: dict[str, Any], folder: Path) -> None:
    """Random weights of a model's shape, in 16 bits."""
    import torch
    import transformers

    ends = {"bos_token_id": 1, "eos_token_id": 2, "max_position_embeddings": 8192}
    config = transformers.CONFIG_MAPPING[values["model_type"]](**{**values, **ends})
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)


def _run(program: _Program) -> dict[str, float]:
    """Tokens per second with an empty context, and to its end."""
    from runner.runtime import Program

    with Program(program.path) as loaded:
        # The first call packs weights, which later ones find packed.
        loaded.generate([5], 2)
        figures = {}
        for suffix, count in (("", _PROMPT), ("_full", program.context - _WRITTEN - 1)):
            answer = loaded.generate([5 + i % 1000 for i in range(count)], _WRITTEN)
            figures[f"read{suffix}"] = 1000 * answer.prompt_tokens / answer.prefill_ms
            figures[f"write{suffix}"] = 1000 * answer.decode_tokens / answer.decode_ms
    return figures


if __name__ == "__main__":
    main()
