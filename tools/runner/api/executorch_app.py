"""ExecuTorch programs of these rules for Python apps: open an app or a program, run methods, chat.

    import numpy as np
    from executorch_app import App

    with App("chat_app") as app, app.session("llama") as session:
        (logits,) = session.run([np.array([[1, 2]]), np.array([0])])
        with session.chat() as chat:
            print(chat.say("Hello!").text)

It is the C interface, executorch_app.h, by ctypes, and needs numpy alone. Threads: one app may
serve several sessions in several threads. One session, and its chat, belong to one thread at a
time; only `Chat.stop` may be called from any thread. Calls release Python's lock.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from ctypes import (
    POINTER,
    byref,
    c_bool,
    c_char,
    c_char_p,
    c_double,
    c_int64,
    c_size_t,
    c_uint32,
    c_void_p,
)
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

_LIBRARY = "libexecutorch_app.so"
# As `executorch_app_code`.
INVALID_ARGUMENT, INVALID_FILES, NOT_LOADED, FAILED, CONTEXT_FULL = range(1, 6)


class AppError(Exception):
    """What is wrong, as one sentence.

    Attributes:
      code: INVALID_ARGUMENT, INVALID_FILES, NOT_LOADED, FAILED or CONTEXT_FULL.
    """

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


@dataclass(frozen=True)
class Answer:
    """An answer of a language model.

    Attributes:
      text: all of it.
      reason: why it ended: "end", "length", "context" or "stopped".
      prompt_tokens, tokens: number of tokens of the message, and of the answer.
      prefill_ms, decode_ms: milliseconds of reading the message, and of `decode_tokens` calls.
      token_ids: of the answer, without the token that ended it.
    """

    text: str
    reason: str
    prompt_tokens: int
    tokens: int
    prefill_ms: float
    decode_tokens: int
    decode_ms: float
    token_ids: tuple[int, ...]


class _Error(ctypes.Structure):
    _fields_ = (("sentence", c_char * 2048),)


class _ProgramFiles(ctypes.Structure):
    _fields_ = (
        ("program", c_char_p),
        ("manifest", c_char_p),
        ("data", POINTER(c_char_p)),
        ("data_count", c_size_t),
        ("bundled", c_bool),
    )


class _OpenOptions(ctypes.Structure):
    _fields_ = (
        ("manifest", c_char_p),
        ("data", POINTER(c_char_p)),
        ("data_count", c_size_t),
        ("verify", c_bool),
        ("weight_cache", c_bool),
        ("no_weight_cache", c_bool),
        ("programs", POINTER(_ProgramFiles)),
        ("program_count", c_size_t),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("dtype", c_char_p),
        ("shape", POINTER(c_int64)),
        ("rank", c_size_t),
        ("data", c_void_p),
        ("size", c_size_t),
        ("name", c_char_p),
    )


class _ChatOptions(ctypes.Structure):
    _fields_ = (
        ("tokenizer", c_char_p),
        ("system", c_char_p),
        ("raw", c_bool),
        ("temperature", c_double),
        ("seed", c_uint32),
        ("max_new_tokens", c_uint32),
        ("parse_special", c_bool),
        ("multi_turn", c_bool),
    )


class _Answer(ctypes.Structure):
    _fields_ = (
        ("reason", c_char_p),
        ("prompt_tokens", c_size_t),
        ("tokens", c_size_t),
        ("prefill_ms", c_double),
        ("decode_tokens", c_size_t),
        ("decode_ms", c_double),
        ("prompt_token_ids", POINTER(c_uint32)),
        ("token_ids", POINTER(c_uint32)),
    )


_Listener = ctypes.CFUNCTYPE(c_bool, POINTER(c_char), c_size_t, c_void_p)

# Result and arguments of each function. Those that return a code have the error as last argument.
_CODE = ctypes.c_int
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "open": (_CODE, (c_char_p, POINTER(_OpenOptions), POINTER(c_void_p))),
    "close": (None, (c_void_p,)),
    "program_count": (c_size_t, (c_void_p,)),
    "program_name": (c_char_p, (c_void_p, c_size_t)),
    "open_session": (_CODE, (c_void_p, c_char_p, POINTER(c_void_p))),
    "close_session": (None, (c_void_p,)),
    "method_count": (c_size_t, (c_void_p,)),
    "method_name": (c_char_p, (c_void_p, c_size_t)),
    "run": (
        _CODE,
        (
            *(c_void_p, c_char_p, POINTER(_Tensor), c_size_t),
            *(POINTER(POINTER(_Tensor)), POINTER(c_size_t)),
        ),
    ),
    "open_chat": (_CODE, (c_void_p, POINTER(_ChatOptions), POINTER(c_void_p))),
    "close_chat": (None, (c_void_p,)),
    "say": (_CODE, (c_void_p, c_char_p, _Listener, c_void_p, POINTER(_Answer))),
    "stop": (None, (c_void_p,)),
    "turns": (c_size_t, (c_void_p,)),
    "rewind": (_CODE, (c_void_p, c_size_t)),
    "switch_adapter": (_CODE, (c_void_p, c_char_p, POINTER(c_char_p), c_size_t)),
    "save_chat": (_CODE, (c_void_p, c_char_p)),
    "restore_chat": (_CODE, (c_void_p, c_char_p)),
    "count_tokens": (_CODE, (c_void_p, c_char_p, POINTER(c_size_t))),
    "room": (c_size_t, (c_void_p,)),
}


class _Library:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        library = ctypes.CDLL(os.fspath(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, f"executorch_app_{name}")
            function.restype = result
            function.argtypes = arguments + ((POINTER(_Error),) if result is _CODE else ())
        self._library = library

    def get(self, name: str, *arguments: Any) -> Any:
        """A function that cannot fail."""
        return getattr(self._library, f"executorch_app_{name}")(*arguments)

    def call(self, name: str, *arguments: Any) -> None:
        """A function that can.

        Raises:
          AppError: it failed.
        """
        error = _Error()
        code = getattr(self._library, f"executorch_app_{name}")(*arguments, byref(error))
        if code:
            raise AppError(code, error.sentence.decode("utf-8", "replace"))


class _Handle:
    """What the library opened; closed once."""

    _close = ""

    def __init__(self, library: _Library, handle: c_void_p) -> None:
        self._library = library
        self._open: c_void_p | None = handle

    @property
    def _handle(self) -> c_void_p:
        if self._open is None:
            raise AppError(INVALID_ARGUMENT, f"This {type(self).__name__.lower()} is closed.")
        return self._open

    def close(self) -> None:
        """Frees it. Close chats before their session, and sessions before their app."""
        if self._open is not None:
            self._library.get(self._close, self._open)
            self._open = None

    def __enter__(self) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class App(_Handle):
    """An app, or a program file.

    Args:
      path: an app's folder, its manifest.json, or a .pte file.
      library: the shared library; default: libexecutorch_app.so beside this file, or on the search
        path of the system.
      manifest: of a .pte file; default: FILE.manifest.json beside it, if it exists.
      data: a .pte file's data files, if its manifest has other ones or none.
      verify: whether to check the files' SHA-256, too.
      weight_cache: whether XNNPACK packs common weights once for all sessions. True: an error if
        that is unsafe; None: where the manifests prove that it is safe.

    Raises:
      AppError: a file is missing or damaged, or does not belong to the others.
      OSError: the library cannot be loaded.
    """

    _close = "close"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        library: str | os.PathLike[str] | None = None,
        manifest: str | os.PathLike[str] | None = None,
        data: Sequence[str | os.PathLike[str]] = (),
        verify: bool = False,
        weight_cache: bool | None = None,
    ) -> None:
        beside = Path(__file__).parent.parent / _LIBRARY
        loaded = _Library(library or (beside if beside.is_file() else _LIBRARY))
        files = (c_char_p * len(data))(*(os.fsencode(file) for file in data))
        options = _OpenOptions(
            None if manifest is None else os.fsencode(manifest),
            files,
            len(data),
            verify,
            weight_cache is True,
            weight_cache is False,
        )
        handle = c_void_p()
        loaded.call("open", os.fsencode(path), byref(options), byref(handle))
        super().__init__(loaded, handle)

    @property
    def programs(self) -> list[str]:
        """Names in the app; of a .pte file its path."""
        count = self._library.get("program_count", self._handle)
        names = (self._library.get("program_name", self._handle, i) for i in range(count))
        return [name.decode() for name in names]

    def session(self, program: str | None = None) -> Session:
        """Loads a program with memory of its own; sessions share the mapped files.

        Args:
          program: its name; None: the only one.

        Raises:
          AppError: there is no such program, or the runtime cannot load it.
        """
        handle = c_void_p()
        name = None if program is None else program.encode()
        self._library.call("open_session", self._handle, name, byref(handle))
        return Session(self._library, handle)


class Session(_Handle):
    """A loaded program."""

    _close = "close_session"

    @property
    def methods(self) -> list[str]:
        """Names, sorted."""
        count = self._library.get("method_count", self._handle)
        names = (self._library.get("method_name", self._handle, i) for i in range(count))
        return [name.decode() for name in names]

    def run(self, inputs: Sequence[np.ndarray], method: str | None = None) -> list[np.ndarray]:
        """Runs a method.

        Args:
          inputs: in the method's order, of its dtypes.
          method: its name; None: "forward", or the only one.

        Returns:
          The outputs; those of bfloat16 as their bits, uint16.

        Raises:
          AppError: an input does not fit, or the program failed.
        """
        kept = [np.ascontiguousarray(value).reshape(np.shape(value)) for value in inputs]
        shapes = [(c_int64 * value.ndim)(*value.shape) for value in kept]
        tensors = (_Tensor * len(kept))()
        for tensor, value, shape in zip(tensors, kept, shapes, strict=True):
            tensor.dtype, tensor.shape, tensor.rank = value.dtype.name.encode(), shape, value.ndim
            tensor.data, tensor.size = value.ctypes.data, value.nbytes
        outputs, count = POINTER(_Tensor)(), c_size_t()
        name = None if method is None else method.encode()
        self._library.call(
            "run", self._handle, name, tensors, len(kept), byref(outputs), byref(count)
        )
        return [_array(outputs[i]) for i in range(count.value)]

    def chat(
        self,
        *,
        tokenizer: str | os.PathLike[str] | None = None,
        system: str | None = None,
        raw: bool = False,
        temperature: float = 0.0,
        seed: int = 0,
        max_new_tokens: int = 256,
    ) -> Chat:
        """Opens a chat in the session's KV cache; a session has one chat at a time.

        Args:
          tokenizer: a tokenizer.json, with chat_format.json beside it; None: the app's.
          system: the system message; None: the chat template's.
          raw: whether messages are the model's whole input, without a chat format.
          temperature: 0: the most likely token; 1: the model's distribution.
          seed: of the random numbers; 0: a random one.
          max_new_tokens: of an answer.

        Raises:
          AppError: the program is not a language model, or a file is missing.
        """
        options = _ChatOptions(
            None if tokenizer is None else os.fsencode(tokenizer),
            None if system is None else system.encode(),
            raw,
            temperature,
            seed,
            max_new_tokens,
        )
        handle = c_void_p()
        self._library.call("open_chat", self._handle, byref(options), byref(handle))
        return Chat(self._library, handle)


class Chat(_Handle):
    """A conversation with a language model."""

    _close = "close_chat"

    def say(self, message: str, listener: Callable[[str], bool | None] | None = None) -> Answer:
        """Answers a message; the answer is a turn of the chat.

        Args:
          message: the user's.
          listener: called with each part of the answer; False ends the answer. What it raises ends
            the answer, too, and is raised again.

        Raises:
          AppError: the message does not fit into the context (code CONTEXT_FULL), or the program
            failed. The chat is as it was before the message.
        """
        parts: list[str] = []
        raised: list[BaseException] = []

        def receive(text: Any, size: int, _user: Any) -> bool:
            parts.append(text[:size].decode("utf-8", "replace"))
            try:
                return listener is None or listener(parts[-1]) is not False
            except BaseException as error:  # ctypes would print it and go on.
                raised.append(error)
                return False

        answer = _Answer()
        self._library.call(
            "say", self._handle, message.encode(), _Listener(receive), None, byref(answer)
        )
        if raised:
            raise raised[0]
        return Answer(
            "".join(parts),
            answer.reason.decode(),
            answer.prompt_tokens,
            answer.tokens,
            answer.prefill_ms,
            answer.decode_tokens,
            answer.decode_ms,
            tuple(answer.token_ids[: answer.tokens]),
        )

    def stop(self) -> None:
        """Ends the current answer after its next token; for other threads."""
        self._library.get("stop", self._handle)

    @property
    def turns(self) -> int:
        """The number of turns."""
        return self._library.get("turns", self._handle)

    def rewind(self, turns: int) -> None:
        """Keeps that many turns, and forgets later ones; 0 begins a new conversation.

        Raises:
          AppError: there are fewer turns.
        """
        self._library.call("rewind", self._handle, turns)

    def switch_adapter(
        self, program: str | None = None, data: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Continues the conversation with another adapter; the next message reads it once more.

        Args:
          program: another program of the app that has the same tokenizer; None: the same one.
          data: data files in place of the program's: an adapter's .ptd, beside its .index.json.

        Raises:
          AppError: a file does not fit, or the conversation does not fit into the program's
            context. The chat is as it was before.
        """
        name = None if program is None else program.encode()
        files = (c_char_p * len(data))(*(os.fsencode(file) for file in data))
        self._library.call("switch_adapter", self._handle, name, files, len(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the conversation and its KV cache to a file.

        Raises:
          AppError: the file cannot be written.
        """
        self._library.call("save_chat", self._handle, os.fsencode(path))

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continues a saved conversation in place of this one, which an error leaves as it is.

        Raises:
          AppError: the file is damaged, or another program, or other data, wrote it.
        """
        self._library.call("restore_chat", self._handle, os.fsencode(path))

    def count_tokens(self, message: str) -> int:
        """The tokens that a message would add now, with those of the chat format.

        Raises:
          AppError: the message has no tokens, or too many bytes.
        """
        count = c_size_t()
        self._library.call("count_tokens", self._handle, message.encode(), byref(count))
        return count.value

    @property
    def room(self) -> int:
        """How many more tokens fit into the chat."""
        return self._library.get("room", self._handle)


def _array(tensor: _Tensor) -> np.ndarray:
    """A copy: the library's memory is the next run's."""
    name = tensor.dtype.decode()
    shape = tensor.shape[: tensor.rank] if tensor.rank else []
    data = ctypes.string_at(tensor.data, tensor.size)
    return np.frombuffer(data, "uint16" if name == "bfloat16" else name).reshape(shape).copy()
