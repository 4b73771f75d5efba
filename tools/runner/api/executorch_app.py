"""ExecuTorch programs of these rules for Python apps: open an app or a program, run methods, chat.

    import numpy as np
    from executorch_app import App

    with App("chat_app") as app, app.session("llama") as session:
        (logits,) = session.run([np.array([[1, 2]]), np.array([0])])
        with session.chat() as chat:
            print(chat.say("Hello!").text)

It is the C interface, executorch_app.h, by ctypes, and needs numpy alone.

Objects keep what opened them, and are closed with it, in any order: closing a session closes its
chat, and closing an app its sessions. A closed one raises an `AppError`; closing it again has no
effect.

Threads: all methods may be called from any thread. Sessions run at the same time; calls of one
session and its chat wait for each other, except `Chat.stop`. Calls release Python's lock.

A listener may read `Chat.turns` and `Chat.room` and call `Chat.stop`. Other calls for its own
chat, session or app raise an `AppError`.
"""

from __future__ import annotations

import ctypes
import json
import numbers
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
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
from typing import Any, NoReturn

import numpy as np

_LIBRARY = "libexecutorch_app.so"
# As `executorch_app_code`.
INVALID_ARGUMENT, INVALID_FILES, NOT_LOADED, FAILED, CONTEXT_FULL = range(1, 6)
_MOST = 2**31 - 1


class AppError(Exception):
    """The problem, as one sentence.

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


@dataclass(frozen=True)
class Value:
    """An input or output of a method.

    Attributes:
      kind: "tensor", "int", "float", "bool", "string", "none", "list" or "unknown".
      dtype: of a tensor, NumPy's name or "bfloat16"; empty: it is none.
      shape: of a tensor; before a run, the largest one.
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Method:
    """A method's name, inputs and outputs."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


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
        ("variants", POINTER(c_char_p)),
        ("variant_count", c_size_t),
        ("device", POINTER(c_char_p)),
        ("device_count", c_size_t),
        ("state", c_char_p),
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


class _SessionOptions(ctypes.Structure):
    _fields_ = (("records_events", c_bool),)


class _Value(ctypes.Structure):
    _fields_ = (
        ("kind", c_char_p),
        ("dtype", c_char_p),
        ("shape", POINTER(c_int64)),
        ("rank", c_size_t),
    )


class _Method(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("inputs", POINTER(_Value)),
        ("input_count", c_size_t),
        ("outputs", POINTER(_Value)),
        ("output_count", c_size_t),
    )


_Listener = ctypes.CFUNCTYPE(c_bool, POINTER(c_char), c_size_t, c_void_p)

# Result and arguments of each function. Those that return a code have the error as last argument.
_CODE = ctypes.c_int
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "runtime_info": (c_char_p, ()),
    "set_threads": (_CODE, (c_size_t,)),
    "open": (_CODE, (c_char_p, POINTER(_OpenOptions), POINTER(c_void_p))),
    # The close functions return a code, but take no error.
    "close": (ctypes.c_uint, (c_void_p,)),
    "has_weight_cache": (c_bool, (c_void_p,)),
    "variant": (c_char_p, (c_void_p, c_char_p)),
    "program_count": (c_size_t, (c_void_p,)),
    "program_name": (c_char_p, (c_void_p, c_size_t)),
    "open_session": (_CODE, (c_void_p, c_char_p, POINTER(c_void_p))),
    "open_session_at": (
        _CODE,
        (c_void_p, c_size_t, POINTER(_SessionOptions), POINTER(c_void_p)),
    ),
    "close_session": (ctypes.c_uint, (c_void_p,)),
    "reset_session": (_CODE, (c_void_p,)),
    "method_count": (c_size_t, (c_void_p,)),
    "method_name": (c_char_p, (c_void_p, c_size_t)),
    "run": (
        _CODE,
        (
            *(c_void_p, c_char_p, POINTER(_Tensor), c_size_t),
            *(POINTER(POINTER(_Tensor)), POINTER(c_size_t)),
        ),
    ),
    "describe_method": (_CODE, (c_void_p, c_char_p, POINTER(_Method))),
    "load_method": (_CODE, (c_void_p, c_char_p)),
    "last_run": (c_double, (c_void_p, POINTER(_Method))),
    "write_events": (_CODE, (c_void_p, c_char_p)),
    "generate": (
        _CODE,
        (c_void_p, POINTER(c_uint32), c_size_t, c_uint32, POINTER(_Answer)),
    ),
    "is_language_model": (c_bool, (c_void_p,)),
    "open_chat": (_CODE, (c_void_p, POINTER(_ChatOptions), POINTER(c_void_p))),
    "close_chat": (ctypes.c_uint, (c_void_p,)),
    "attach": (_CODE, (c_void_p, POINTER(_Tensor))),
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


def _opened(path: str | os.PathLike[str]) -> ctypes.CDLL:
    """Opens a library; its functions are bound when they are called.

    ctypes binds all at once. Older runtimes are Python modules of another torch, and lack some that
    nothing calls.
    """
    process = ctypes.CDLL(None)
    process.dlopen.argtypes, process.dlopen.restype = (c_char_p, ctypes.c_int), c_void_p
    handle = process.dlopen(os.fsencode(path), os.RTLD_LAZY)
    # Without a handle, ctypes tries once more, and says why it fails.
    return ctypes.CDLL(os.fspath(path), handle=handle)


class _Library:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        library = _opened(path)
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


def _loaded(library: str | os.PathLike[str] | None) -> _Library:
    """The library; None: the one beside this file, or on the search path of the system."""
    beside = Path(__file__).parent.parent / _LIBRARY
    return _Library(library or (beside if beside.is_file() else _LIBRARY))


def runtime_info(library: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Reads what the library's runtime has.

    Args:
      library: as for `App`.

    Returns:
      "version", "backends" and "operators".

    Raises:
      OSError: the library cannot be loaded.
    """
    info: dict[str, Any] = json.loads(_loaded(library).get("runtime_info"))
    return info


def set_threads(count: int, library: str | os.PathLike[str] | None = None) -> None:
    """Sets the number of threads that kernels and backends use in this process.

    Args:
      count: from 1 to 1024.
      library: as for `App`.

    Raises:
      AppError: a session of this process is open.
      OSError: the library cannot be loaded.
    """
    _loaded(library).call("set_threads", _number("count", count, _MOST))


def _invalid(name: str, got: object, expected: str) -> AppError:
    return AppError(INVALID_ARGUMENT, f"{name}: got {got!r:.100}, expected {expected}.")


def _encoded(name: str, text: bytes) -> bytes:
    if b"\0" in text:
        expected = "one without the character U+0000, which ends texts of C"
        raise _invalid(name, os.fsdecode(text), expected)
    return text


def _text(name: str, value: object) -> bytes | None:
    """A text of C; None is NULL."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise _invalid(name, value, "a str")
    try:
        return _encoded(name, value.encode())
    except UnicodeEncodeError:
        raise _invalid(name, value, "a str that can be UTF-8") from None


def _path(name: str, value: object) -> bytes | None:
    """A path of C; None is NULL."""
    if value is None:
        return None
    try:
        return _encoded(name, os.fsencode(value))  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        raise _invalid(name, value, "a path") from None


def _required(name: str, encoded: bytes | None) -> bytes:
    if encoded is None:
        raise _invalid(name, None, "a value")
    return encoded


def _items(name: str, values: object, what: str) -> list[Any]:
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable):
        raise _invalid(name, values, f"a list of {what}")
    return list(values)


def _paths(name: str, values: object) -> ctypes.Array[c_char_p]:
    paths = [_required(name, _path(name, value)) for value in _items(name, values, "paths")]
    return (c_char_p * len(paths))(*paths)


def _texts(name: str, values: object) -> ctypes.Array[c_char_p]:
    texts = [_required(name, _text(name, value)) for value in _items(name, values, "texts")]
    return (c_char_p * len(texts))(*texts)


def _facts(device: object) -> ctypes.Array[c_char_p]:
    if not (device is None or isinstance(device, Mapping)):
        raise _invalid("device", device, "facts by name")
    return _texts("device", [f"{fact}={value}" for fact, value in dict(device or {}).items()])


def _number(name: str, value: object, most: int) -> int:
    """A number that C would cut."""
    try:
        number = value.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        number = -1
    if not 0 <= number <= most:
        raise _invalid(name, value, f"a number from 0 to {most}")
    return number


class _Handle:
    """An object that the library opened; closed once."""

    _close = ""

    def __init__(self, library: _Library, handle: c_void_p, lock: threading.RLock) -> None:
        self._library = library
        self._open: c_void_p | None = handle
        # A session's is also its chat's.
        self._lock = lock

    @property
    def _handle(self) -> c_void_p:
        if self._open is None:
            raise AppError(INVALID_ARGUMENT, f"This {type(self).__name__.lower()} is closed.")
        return self._open

    def _get(self, name: str, *arguments: Any) -> Any:
        """A function that cannot fail."""
        with self._lock:
            return self._library.get(name, self._handle, *arguments)

    def _call(self, name: str, *arguments: Any) -> None:
        """A function that can."""
        with self._lock:
            self._library.call(name, self._handle, *arguments)

    def close(self) -> None:
        """Closes it, and what it opened. Waits for calls in other threads; an answer ends after its
        next token. The second time, it has no effect.

        Raises:
          AppError: a listener called it.
        """
        with self._lock:
            if self._open is None:
                return
            if self._library.get(self._close, self._open):
                raise AppError(
                    INVALID_ARGUMENT,
                    f"This {type(self).__name__.lower()} is answering: a listener closed it. "
                    "Return False to end the answer, and close it then.",
                )
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
      variants: programs to take where they are among variants, whatever the device is.
      device: facts in place of the device's own: {"soc": "SM8650", "features": "dotprod i8mm"}.
      state: a folder that remembers variants whose loading ended the process; None: none does.

    Raises:
      AppError: a file is missing or damaged, or does not belong to the others; or no program of
        variants is for this device.
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
        variants: Sequence[str] = (),
        device: Mapping[str, str] | None = None,
        state: str | os.PathLike[str] | None = None,
    ) -> None:
        files = _paths("data", data)
        forced = _texts("variants", variants)
        facts = _facts(device)
        options = _OpenOptions(
            _path("manifest", manifest),
            files,
            len(files),
            bool(verify),
            weight_cache is True,
            weight_cache is False,
            variants=forced,
            variant_count=len(forced),
            device=facts,
            device_count=len(facts),
            state=_path("state", state),
        )
        encoded = _required("path", _path("path", path))
        loaded = _loaded(library)
        handle = c_void_p()
        loaded.call("open", encoded, byref(options), byref(handle))
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        super().__init__(loaded, handle, threading.RLock())

    @property
    def has_weight_cache(self) -> bool:
        """Returns whether XNNPACK packs common weights once for all sessions."""
        with self._lock:
            return self._get("has_weight_cache")

    @property
    def programs(self) -> list[str]:
        """Names in the app; of a .pte file its path."""
        with self._lock:
            names = (self._get("program_name", i) for i in range(self._get("program_count")))
            return [name.decode() for name in names]

    def variant(self, name: str | None = None) -> dict[str, Any] | None:
        """Tells what variants of the app came to.

        Args:
          name: the variants'; None: the only ones.

        Returns:
          "program"; "skipped", better ones that the device cannot have, each as "program" and
          "reason"; and "device", the facts that somebody asked for. None: there are no such ones.
        """
        with self._lock:
            found = self._get("variant", _text("name", name))
            return None if found is None else json.loads(found)

    def session(self, program: str | None = None, *, records_events: bool = False) -> Session:
        """Loads a program with memory of its own; sessions share the mapped files.

        Args:
          program: its name; None: the only one.
          records_events: whether runs record events for `Session.write_events`; they are slower.

        Raises:
          AppError: there is no such program, or the runtime cannot load it.
        """
        handle = c_void_p()
        name = _text("program", program)
        # Not with the lock held: loading takes long, and sessions that are closed take their own.
        if records_events:
            names = self.programs
            index = names.index(program) if program in names else 0 if program is None else -1
            if index < 0 or (program is None and len(names) > 1):
                raise _invalid("program", program, f"one of {', '.join(names)}")
            options = _SessionOptions(True)
            self._library.call(
                "open_session_at", self._handle, index, byref(options), byref(handle)
            )
        else:
            self._library.call("open_session", self._handle, name, byref(handle))
        session = Session(self, handle)
        self._sessions.add(session)
        return session

    def close(self) -> None:
        for session in list(self._sessions):
            session.close()
        super().close()

    close.__doc__ = _Handle.close.__doc__


class Session(_Handle):
    """A loaded program. `App.session` returns it."""

    _close = "close_session"

    def __init__(self, app: App, handle: c_void_p) -> None:
        super().__init__(app._library, handle, threading.RLock())
        self._app = app
        self._chats: weakref.WeakSet[Chat] = weakref.WeakSet()

    def close(self) -> None:
        chats = list(self._chats)
        for chat in chats:
            chat._end()
        with self._lock:
            super().close()
            for chat in chats:
                chat._open = None

    close.__doc__ = _Handle.close.__doc__

    @property
    def methods(self) -> list[str]:
        """Names, sorted."""
        with self._lock:
            names = (self._get("method_name", i) for i in range(self._get("method_count")))
            return [name.decode() for name in names]

    @property
    def is_language_model(self) -> bool:
        """Returns whether the program may be a language model, which chats."""
        with self._lock:
            return self._get("is_language_model")

    def describe(self, method: str | None = None) -> Method:
        """Describes a method, with the largest shapes that it takes and returns.

        Args:
          method: its name; None: "forward", or the only one.

        Raises:
          AppError: there is no such method.
        """
        description = _Method()
        with self._lock:
            self._call("describe_method", _text("method", method), byref(description))
            return _method(description)

    def load(self, method: str | None = None) -> None:
        """Loads a method before it first runs.

        Raises:
          AppError: there is no such method, or the runtime cannot load it.
        """
        self._call("load_method", _text("method", method))

    def reset(self) -> None:
        """Loads the program anew: what its methods keep between runs has its initial values again.

        Raises:
          AppError: the session has a chat.
        """
        self._call("reset_session")

    @property
    def last_run_ms(self) -> float:
        """Returns how long the last run took, without copies of inputs and outputs; 0: none."""
        with self._lock:
            return self._get("last_run", None)

    @property
    def last_run(self) -> Method:
        """Describes the last run, with the shapes that it had."""
        description = _Method()
        with self._lock:
            self._get("last_run", byref(description))
            return _method(description)

    def write_events(self, path: str | os.PathLike[str]) -> None:
        """Writes the events of a session that records them, for ExecuTorch's Inspector (ETDump).

        Raises:
          AppError: the session records none, or the file cannot be written.
        """
        self._call("write_events", _required("path", _path("path", path)))

    def generate(self, tokens: Sequence[int], max_new_tokens: int = 256) -> Answer:
        """Reads tokens into an empty KV cache and adds the most likely ones, without a tokenizer.

        For measurements: a token that ends an answer is one like others.

        Args:
          tokens: the prompt's.
          max_new_tokens: fewer, if the context has no more room.

        Returns:
          An answer without text.

        Raises:
          AppError: the program is not a language model, or the session has a chat.
        """
        given = _items("tokens", tokens, "numbers")
        prompt = [_number("tokens", token, 2**32 - 1) for token in given]
        most = _number("max_new_tokens", max_new_tokens, _MOST)
        answer = _Answer()
        with self._lock:
            values = (c_uint32 * len(prompt))(*prompt)
            self._call("generate", values, len(prompt), most, byref(answer))
            return _answer("", answer)

    def run(self, inputs: Sequence[np.ndarray], method: str | None = None) -> list[np.ndarray]:
        """Runs a method.

        Args:
          inputs: in the method's order, of its dtypes; of any byte order; those of bfloat16 as
            their bits, uint16.
          method: its name; None: "forward", or the only one.

        Returns:
          The outputs; those of bfloat16 as their bits, uint16.

        Raises:
          AppError: an input does not fit, or the program failed.
        """
        kept = [_input("inputs", value) for value in _items("inputs", inputs, "arrays")]
        bits = _bfloat16_inputs(self.describe(method)) if _has_bits(kept) else set()
        made = [
            _tensor(value, "bfloat16" if n in bits else value.dtype.name)
            for n, value in enumerate(kept)
        ]
        tensors = (_Tensor * len(kept))(*(tensor for tensor, _ in made))
        outputs, count = POINTER(_Tensor)(), c_size_t()
        name = _text("method", method)
        # The outputs are the session's memory.
        with self._lock:
            self._call("run", name, tensors, len(kept), byref(outputs), byref(count))
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
        if not isinstance(temperature, numbers.Real):
            raise _invalid("temperature", temperature, "a number")
        options = _ChatOptions(
            _path("tokenizer", tokenizer),
            _text("system", system),
            bool(raw),
            float(temperature),
            _number("seed", seed, _MOST),
            _number("max_new_tokens", max_new_tokens, _MOST),
        )
        handle = c_void_p()
        with self._lock:
            self._call("open_chat", byref(options), byref(handle))
            chat = Chat(self, handle)
            self._chats.add(chat)
            return chat


class Chat(_Handle):
    """A conversation with a language model. `Session.chat` returns it."""

    _close = "close_chat"

    def __init__(self, session: Session, handle: c_void_p) -> None:
        super().__init__(session._library, handle, session._lock)
        self._session = session
        # Another thread waits to close it.
        self._is_ending = False

    def _end(self) -> None:
        """Ends an answer, even one that has not begun; not one whose listener calls this."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._is_ending = True
            self.stop()

    def close(self) -> None:
        self._end()
        super().close()

    close.__doc__ = _Handle.close.__doc__

    def attach(self, media: np.ndarray) -> None:
        """Gives an image or a recording to the next message, and runs the program's encoder.

        The message has a place for each, in the order of these calls: the token that the metadata
        `get_media_token_id` name, such as "<image>", once or as often as it has positions. The
        model's card says what else stands around it. `rewind` forgets what no message has said.

        Args:
          media: what the program's `vision_encoder` or `audio_encoder` takes. An image may also be
            (height, width, 3), as image libraries have it: uint8, of the size that the metadata
            `get_image_size` say.

        Raises:
          AppError: the program reads no images or recordings, or this does not fit.
        """
        array = _input("media", media)
        if array.ndim == 3 and array.dtype == np.uint8 and array.shape[-1] == 3:
            array = np.ascontiguousarray(array.transpose(2, 0, 1)[np.newaxis])
        tensor, _shape = _tensor(array, array.dtype.name)
        tensor.name = b"media"
        with self._lock:
            self._call("attach", byref(tensor))

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
            try:
                parts.append(text[:size].decode("utf-8", "replace"))
                goes_on = listener is None or listener(parts[-1]) is not False
                return goes_on and not self._is_ending
            except BaseException as error:  # ctypes would print it and go on.
                raised.append(error)
                return False

        if listener is not None and not callable(listener):
            raise _invalid("listener", listener, "a function")
        answer = _Answer()
        said = _required("message", _text("message", message))
        # The numbers of tokens are the chat's memory.
        with self._lock:
            self._call("say", said, _Listener(receive), None, byref(answer))
            if raised:
                raise raised[0]
            return _answer("".join(parts), answer)

    def stop(self) -> None:
        """Ends the current answer after its next token. Does not wait, and needs no open chat."""
        opened = self._open
        if opened is not None:
            self._library.get("stop", opened)

    @property
    def turns(self) -> int:
        """The number of turns."""
        return self._get("turns")

    def rewind(self, turns: int) -> None:
        """Keeps that many turns, and forgets later ones; 0 begins a new conversation.

        Raises:
          AppError: there are fewer turns.
        """
        self._call("rewind", _number("turns", turns, _MOST))

    def switch_adapter(
        self, program: str | None = None, data: Sequence[str | os.PathLike[str]] = ()
    ) -> None:
        """Continues the conversation with another adapter; the next message reads it once more.

        Args:
          program: another program of the app that has the same tokenizer; None: the same one.
          data: data files in place of the program's: an adapter's .ptd, beside its .manifest.json.

        Raises:
          AppError: a file does not fit, or the conversation does not fit into the program's
            context. The chat is as it was before.
        """
        files = _paths("data", data)
        self._call("switch_adapter", _text("program", program), files, len(files))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the conversation and its KV cache to a file.

        Raises:
          AppError: the file cannot be written.
        """
        self._call("save_chat", _required("path", _path("path", path)))

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Continues a saved conversation in place of this one, which an error leaves as it is.

        Raises:
          AppError: the file is damaged, or another program, or other data, wrote it.
        """
        self._call("restore_chat", _required("path", _path("path", path)))

    def count_tokens(self, message: str) -> int:
        """The tokens that a message would add now, with those of the chat format.

        Raises:
          AppError: the message has no tokens, or too many bytes.
        """
        count = c_size_t()
        self._call("count_tokens", _required("message", _text("message", message)), byref(count))
        return count.value

    @property
    def room(self) -> int:
        """The number of tokens that still fit into the chat."""
        return self._get("room")


def _answer(text: str, answer: _Answer) -> Answer:
    return Answer(
        text,
        answer.reason.decode(),
        answer.prompt_tokens,
        answer.tokens,
        answer.prefill_ms,
        answer.decode_tokens,
        answer.decode_ms,
        tuple(answer.token_ids[: answer.tokens]),
    )


def _method(description: _Method) -> Method:
    """A copy: the library's memory is the next run's."""

    def values(some: Any, count: int) -> tuple[Value, ...]:
        return tuple(
            Value(
                value.kind.decode(),
                (value.dtype or b"").decode(),
                tuple(value.shape[: value.rank]) if value.rank else (),
            )
            for value in some[:count]
        )

    inputs = values(description.inputs, description.input_count)
    outputs = values(description.outputs, description.output_count)
    return Method(description.name.decode(), inputs, outputs)


def _has_bits(inputs: Sequence[np.ndarray]) -> bool:
    return any(value.dtype == np.uint16 for value in inputs)


def _bfloat16_inputs(method: Method) -> set[int]:
    return {n for n, value in enumerate(method.inputs) if value.dtype == "bfloat16"}


def _input(name: str, value: object) -> np.ndarray:
    """An array in row-major order, and in the machine's byte order."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise _invalid(name, value, "arrays") from None
    native = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array, native).reshape(array.shape)


def _tensor(value: np.ndarray, dtype: str) -> tuple[_Tensor, object]:
    """A tensor of an array's memory; keep both, and the second one, while it is used."""
    shape = (c_int64 * value.ndim)(*value.shape)
    tensor = _Tensor()
    tensor.dtype, tensor.shape, tensor.rank = dtype.encode(), shape, value.ndim
    tensor.data, tensor.size = value.ctypes.data, value.nbytes
    return tensor, shape


def _array(tensor: _Tensor) -> np.ndarray:
    """A copy: the library's memory is the next run's."""
    name = tensor.dtype.decode()
    shape = tensor.shape[: tensor.rank] if tensor.rank else []
    data = ctypes.string_at(tensor.data, tensor.size)
    return np.frombuffer(data, "uint16" if name == "bfloat16" else name).reshape(shape).copy()


def main(arguments: Sequence[str], library: str | os.PathLike[str] | None = None) -> NoReturn:
    """Runs the runner's command line in this process, and ends it.

    Args:
      arguments: of the runner, without its name.
      library: as for `App`.
    """
    words = [os.fsencode(word) for word in ("runner", *arguments)]
    # C's own, so that Ctrl-C ends an answer that is computed.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.stdout.flush()
    function = _loaded(library)._library.executorch_app_main
    function(len(words), (c_char_p * (len(words) + 1))(*words, None))
    raise AssertionError("the command line ends the process")


if __name__ == "__main__":
    main(sys.argv[1:])
