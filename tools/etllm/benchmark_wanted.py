"""Says whether the YAML file of a language model asks for benchmarks.

benchmark_wanted --config llm.yaml --name LABEL --output FILE
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from etbuild import BuildError

from etllm.settings import benchmark_wanted
from etllm.yaml_lines import YamlFile


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes "yes" or "no"; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="benchmark_wanted", description=__doc__.split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--config", type=Path, required=True, help="the YAML file")
    parser.add_argument("--name", required=True, help="what messages call it")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        wanted = benchmark_wanted(YamlFile.read(options.config, options.name))
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    options.output.write_text("yes" if wanted else "no", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
