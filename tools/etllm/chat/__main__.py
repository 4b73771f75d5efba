"""Talks with a language model in a .pte file.

    chat --program llama.pte --tokenizer tokenizer.json --config tokenizer_config.json \
        "What is the capital of France?"

Without a prompt, each line from standard input is one. The answer comes token by token, and then a
line with the speed in tokens per second.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from etbuild.errors import BuildError
from etlink.merge import checked

from etllm.chat.conversation import ConversationEncoder
from etllm.chat.errors import ContextFull, LlmError
from etllm.chat.sampler import Sampler
from etllm.chat.session import Answer, Session, answer
from etllm.chat.text import ChatTemplate, PieceStream, load_config, load_template, load_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from etllm.chat.session import Program


class Chat:
    """A conversation: messages, the session that holds their tokens, and how to answer.

    Args:
      program: the model.
      tokenizer: its tokenizer.
      template: its form of a conversation.
      sampler: chooses tokens.
      max_new_tokens: most tokens of one answer.
      system: what the model is told before anything else; empty: what the template says.
      parse_special: whether special tokens in what is said are tokens.
    """

    def __init__(
        self,
        program: Program,
        tokenizer: Tokenizer,
        template: ChatTemplate,
        sampler: Sampler,
        max_new_tokens: int,
        system: str = "",
        parse_special: bool = False,
    ) -> None:
        self._tokenizer = tokenizer
        self._encoder = ConversationEncoder(tokenizer, template, parse_special)
        self._sampler, self._max_new_tokens = sampler, max_new_tokens
        self._session = Session(program)
        self._system = [{"role": "system", "content": system}] if system else []
        self._messages = list(self._system)

    def say(self, prompt: str) -> None:
        """Adds a message and prints the answer to it as it comes.

        Raises:
          ContextFull: the conversation has become too long; it is then forgotten.
          LlmError: the template or the program failed; the message is then forgotten.
        """
        if any(0xD800 <= ord(character) <= 0xDFFF for character in prompt):
            raise LlmError("The prompt is not text in UTF-8.")
        self._messages.append({"role": "user", "content": prompt})
        try:
            self._answer()
        except ContextFull:
            self._messages = list(self._system)
            raise
        except LlmError:
            del self._messages[-1]
            raise

    def _answer(self) -> None:
        tokens = self._encoder.encode(self._messages)
        record, stream, said = Answer(), PieceStream(self._tokenizer), []
        for token in answer(self._session, tokens, self._sampler, self._max_new_tokens, record):
            said.append(stream.add(token))
            print(said[-1], end="", flush=True)
        said.append(stream.end())
        print(said[-1], flush=True)
        self._messages.append({"role": "assistant", "content": "".join(said)})
        if record.reason == "context":
            print(
                f"(The answer ends here: the context of {self._session.program.max_context_len} "
                "tokens is full.)",
                file=sys.stderr,
            )
        print(record.speed(), flush=True)

    def loop(self) -> bool:
        """Answers each line from standard input; one that can't be answered is a note.

        Returns:
          Whether all were answered.
        """
        asks, are_answered = sys.stdin.isatty(), True
        if isinstance(sys.stdin, io.TextIOWrapper):
            # As of arguments: other bytes are no reason to end.
            sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
        while True:
            if asks:
                print("> ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
            if not line:
                return are_answered
            if not line.strip():
                continue
            try:
                self.say(line.strip())
            except ContextFull as error:
                are_answered = False
                print(f"{error}\nA new conversation begins here.", file=sys.stderr, flush=True)
            except LlmError as error:
                are_answered = False
                print(f"chat: {error}", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
      arguments: without the program's name; None: those of the process.

    Returns:
      The exit code: 0, or 1 after an error that was printed.
    """
    parser = argparse.ArgumentParser(prog="chat", description=__doc__.split("\n")[0])
    parser.add_argument("--program", type=Path, required=True, help="the .pte file")
    parser.add_argument(
        "--data", type=Path, action="append", default=[], help="a .ptd file; several may be given"
    )
    parser.add_argument("--manifest", type=Path, help="what files are checked against")
    parser.add_argument("--tokenizer", type=Path, required=True, help="tokenizer.json")
    parser.add_argument("--config", type=Path, required=True, help="tokenizer_config.json")
    parser.add_argument("--template", type=Path, help="in the place of the one in the config")
    parser.add_argument("--max_new_tokens", type=int, default=256, help="of one answer")
    parser.add_argument("--temperature", type=float, default=0.0, help="0: the most likely token")
    parser.add_argument("--seed", type=int, help="of the random numbers")
    parser.add_argument("--system", default="", help="what the model is told first")
    parser.add_argument(
        "--parse_special", action="store_true", help="special tokens in what is said are tokens"
    )
    parser.add_argument("prompt", nargs="?", help="default: each line from standard input")
    options = parser.parse_args(arguments)
    try:
        if options.max_new_tokens < 1:
            found = options.max_new_tokens
            raise LlmError(f"--max_new_tokens: expected at least 1, found {found}.")
        config = load_config(options.config)
        if options.template:
            config["chat_template"] = load_template(options.template)
        template = ChatTemplate(config, str(options.template or options.config))
        tokenizer = load_tokenizer(options.tokenizer)
        sampler = Sampler(options.temperature, options.seed)
        # Imported late: it loads the runtime, which takes seconds that a wrong path needn't cost.
        from etllm.chat.program import PteProgram

        with tempfile.TemporaryDirectory() as folder:
            data = checked(options.manifest, options.program, options.data, Path(folder))
            program = PteProgram(options.program, data)
        chat = Chat(
            program,
            tokenizer,
            template,
            sampler,
            options.max_new_tokens,
            options.system,
            options.parse_special,
        )
        if options.prompt is None:
            return 0 if chat.loop() else 1
        chat.say(options.prompt)
    except (BuildError, LlmError) as error:
        print(f"chat: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
