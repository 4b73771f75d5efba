"""Makes a chat_format.json from the chat template in a Hugging Face tokenizer_config.json.

chat_format_from_config --config tokenizer_config.json --output chat_format.json
    [--template chat_template.jinja]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from etllm.chat.chat_format import write_chat_format
from etllm.chat.errors import LlmError
from etllm.chat.text import load_config, load_template


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
      arguments: without the program's name; None: those of the process.

    Returns:
      The exit code: 0, or 1 after an error that was printed.
    """
    parser = argparse.ArgumentParser(
        prog="chat_format_from_config", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--config", type=Path, required=True, help="tokenizer_config.json")
    parser.add_argument("--template", type=Path, help="in the place of the one in the config")
    parser.add_argument("--output", type=Path, required=True, help="chat_format.json to write")
    options = parser.parse_args(arguments)
    try:
        config = load_config(options.config)
        if options.template:
            config["chat_template"] = load_template(options.template)
    except LlmError as error:
        print(f"chat_format_from_config: {error}", file=sys.stderr)
        return 1
    where = options.template or options.config
    write_chat_format(config, where.name, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
