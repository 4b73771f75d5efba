"""Backends and kernels written in Python, which run a program in a device's place.

An emulator is a module with a function `install()`, which `et_packages(emulators = …)` names. It
registers a backend by the name that programs have for it, or kernels by their operators' names:

    from runner import emulated

    def install():
        emulated.register_backend("OurNpuBackend", make)
        emulated.register_kernel("our_npu::add.out", np.add)

The runtime then calls Python where it would call the device (emulated/emulated.cc). Tensors are
NumPy arrays on the runtime's memory, those of bfloat16 their bits, which `is_bfloat16` tells from
other uint16. What an emulator raises becomes the reason for which the program failed.
"""

from __future__ import annotations

import ctypes
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_uint8, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from etbuild.dtypes import DTYPES
from etbuild.errors import BuildError
from runner.api import executorch_app

# NumPy has no bfloat16; what it knows of a dtype besides stays with views of an array.
_BFLOAT16 = {"bits_of": "bfloat16"}
_BY_NUMBER = {
    d.scalar_type: np.dtype(d.numpy, metadata=_BFLOAT16 if d.name == "bfloat16" else {})
    for d in DTYPES
    if d.scalar_type is not None and d.numpy
}
# As `Kind` in emulated.cc, and the runtime's tags of values.
_INIT, _EXECUTE, _DESTROY, _KERNEL = range(4)
_TENSOR, _STRING, _DOUBLE, _INT, _BOOL = range(1, 6)
_LISTS = (6, 7, 8, 9, 11)


class _Value(ctypes.Structure):
    pass


_Value._fields_ = [
    ("tag", c_int32),
    ("dtype", c_int32),
    ("integer", c_int64),
    ("real", c_double),
    ("data", c_void_p),
    ("size", c_uint64),
    ("shape", POINTER(c_int32)),
    ("order", POINTER(c_uint8)),
    ("rank", c_uint64),
    ("items", POINTER(_Value)),
    ("tensor", c_void_p),
]
_CALL = ctypes.CFUNCTYPE(c_int64, c_int32, c_int64, c_void_p, POINTER(_Value), c_uint64)
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "answer": (None, (_CALL,)),
    "backend": (c_int64, (c_char_p,)),
    "kernel": (c_int64, (c_char_p,)),
    "named_data": (c_int64, (c_void_p, c_char_p, c_void_p, c_uint64)),
    "resize": (c_int64, (POINTER(_Value), POINTER(c_int32), c_uint64)),
}


@dataclass(frozen=True)
class Delegate:
    """A part of a program, as its backend gets it.

    Attributes:
      payload: what the backend's compiler wrote.
      specs: its compile specs, by key.
      named_data: reads the program's named data, e.g. weights, by key; while the delegate is made.
    """

    payload: bytes
    specs: Mapping[str, bytes]
    named_data: Callable[[str], bytes]


# Takes a delegate's inputs and, after them, its outputs as they were; returns its outputs. The
# runtime does not tell inputs from outputs: the payload does.
Run = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(frozen=True)
class _Kernel:
    name: str
    function: Callable[..., Any]
    outputs: int


class _State:
    """All that is registered in this process, and the delegates that exist."""

    def __init__(self) -> None:
        self.library: ctypes.CDLL | None = None
        self.backends: list[tuple[str, Callable[[Delegate], Run]]] = []
        self.kernels: list[_Kernel] = []
        self.delegates: dict[int, tuple[str, Run]] = {}
        self.next_handle = 0
        # The function must live as long as the library.
        self.answer = _CALL(_answer)
        self.failures = threading.local()


def register_backend(name: str, make: Callable[[Delegate], Run]) -> None:
    """Registers a backend.

    Args:
      name: what programs call it: "OurNpuBackend".
      make: called when a program is loaded, for each part that is the backend's; returns a function
        that runs the part. It takes the part's inputs and, after them, its outputs as they were,
        and returns the outputs. Values are arrays, numbers, texts, None and lists of these.

    Raises:
      BuildError: the runtime has a backend of that name.
    """
    if _register("backend", name, [known for known, _ in _STATE.backends]):
        _STATE.backends.append((name, make))


def register_kernel(name: str, function: Callable[..., Any], outputs: int = 1) -> None:
    """Registers a kernel.

    Args:
      name: of the operator: "our_npu::add.out".
      function: takes the operator's arguments, without those for outputs; returns the output, or a
        sequence of several. The tensors for outputs get its shape.
      outputs: how many the operator has.

    Raises:
      BuildError: the runtime has a kernel of that name, or no room for more.
    """
    if _register("kernel", name, [known.name for known in _STATE.kernels]):
        _STATE.kernels.append(_Kernel(name, function, outputs))


def is_bfloat16(array: np.ndarray) -> bool:
    """Tells whether an array that an emulator was given holds bits of bfloat16."""
    return dict(array.dtype.metadata or {}) == _BFLOAT16


def take_failure() -> BuildError | None:
    """Returns why an emulator failed last in this thread, once; None: it did not."""
    failure: BuildError | None = getattr(_STATE.failures, "last", None)
    _STATE.failures.last = None
    return failure


def _library() -> ctypes.CDLL:
    if _STATE.library is None:
        # Of the apps' module, whose users need no emulators.
        library = executorch_app._loaded(None)._library
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, f"executorch_emulated_{name}")
            function.restype, function.argtypes = result, arguments
        library.executorch_emulated_answer(_STATE.answer)
        _STATE.library = library
    return _STATE.library


def _register(kind: str, name: str, known: Sequence[str]) -> bool:
    """Registers a name with the runtime; returns whether it is a new one of the emulators'."""
    if name in known:
        return False
    number = getattr(_library(), f"executorch_emulated_{kind}")(name.encode())
    if number < 0:
        raise BuildError(
            f"the emulated {kind} {name}: the runtime refused it, which has a {kind} of that name, "
            "or no room for more."
        )
    assert number == len(known), "nothing else registers them"
    return True


def _answer(kind: int, number: int, named_data: int | None, values: Any, count: int) -> int:
    """Answers a call of the runtime; returns a handle, or 0; less: there is a failure to take."""
    given = values[:count] if count else []
    try:
        if kind == _INIT:
            return _init(number, named_data, given)
        if kind == _EXECUTE:
            _execute(number, given)
        elif kind == _DESTROY:
            _STATE.delegates.pop(number, None)
        elif kind == _KERNEL:
            _run_kernel(_STATE.kernels[number], given)
        return 0
    except BaseException as error:
        _STATE.failures.last = _failure(kind, number, error)
        return -1


def _init(number: int, named_data: int | None, values: Sequence[_Value]) -> int:
    name, make = _STATE.backends[number]
    payload, *specs = [ctypes.string_at(v.data, v.size) if v.size else b"" for v in values]
    keys = [key.decode("utf-8", "replace") for key in specs[::2]]

    def read(key: str) -> bytes:
        size = _library().executorch_emulated_named_data(named_data, key.encode(), None, 0)
        if size < 0:
            raise KeyError(f"the program has no data named {key!r}")
        data = ctypes.create_string_buffer(max(size, 1))
        _library().executorch_emulated_named_data(named_data, key.encode(), data, size)
        return data.raw[:size]

    run = make(Delegate(payload, dict(zip(keys, specs[1::2], strict=True)), read))
    handle = _STATE.next_handle
    _STATE.next_handle += 1
    _STATE.delegates[handle] = (name, run)
    return handle


def _execute(handle: int, values: Sequence[_Value]) -> None:
    _, run = _STATE.delegates[handle]
    outputs = run([_read(value) for value in values])
    if len(outputs) > len(values):
        raise ValueError(f"it returned {len(outputs)} outputs, expected at most {len(values)}")
    _write_all(values[len(values) - len(outputs) :], outputs)


def _run_kernel(kernel: _Kernel, values: Sequence[_Value]) -> None:
    # The tensors for outputs, and behind them what the operator returns: these once more.
    begin = len(values) - kernel.outputs - 1
    got = kernel.function(*(_read(value) for value in values[:begin]))
    _write_all(values[begin:-1], (got,) if kernel.outputs == 1 else got)


def _write_all(values: Sequence[_Value], outputs: Sequence[Any]) -> None:
    for index, (value, output) in enumerate(zip(values, outputs, strict=True)):
        _write(value, np.asarray(output), f"its output {index}")


def _write(value: _Value, got: np.ndarray, what: str) -> None:
    if value.tag != _TENSOR:
        raise TypeError(f"{what} is no tensor, and only tensors can be written")
    into = _array(value, what)
    if got.dtype != into.dtype:
        raise TypeError(f"{what}: got {got.dtype}, expected {into.dtype}")
    if got.shape != into.shape:
        shape = (c_int32 * got.ndim)(*got.shape)
        if _library().executorch_emulated_resize(value, shape, got.ndim) < 0:
            raise ValueError(f"{what}: got the shape {got.shape}, expected {into.shape}")
        into = _array(value, what)
    into[...] = got


def _read(value: _Value) -> Any:
    """A value as Python has it; tensors are read-only."""
    if value.tag == _TENSOR:
        array = _array(value, "a tensor")
        array.setflags(write=False)
        return array
    if value.tag == _STRING:
        return ctypes.string_at(value.data, value.size).decode() if value.size else ""
    if value.tag == _DOUBLE:
        return value.real
    if value.tag in (_INT, _BOOL):
        return bool(value.integer) if value.tag == _BOOL else value.integer
    if value.tag in _LISTS:
        return [_read(item) for item in value.items[: value.size]] if value.size else []
    return None


def _array(value: _Value, what: str) -> np.ndarray:
    """An array on a tensor's memory, whose dimensions lie there in the tensor's order."""
    dtype = _BY_NUMBER.get(value.dtype)
    if dtype is None:
        raise TypeError(f"{what} has elements of type {value.dtype}, which NumPy does not hold")
    shape, order = value.shape[: value.rank], list(value.order[: value.rank])
    if not value.size:
        return np.empty(shape, dtype)
    if not value.data:
        raise ValueError(f"{what} of {value.size} bytes has no memory")
    memory = (ctypes.c_char * value.size).from_address(value.data)
    flat = np.frombuffer(memory, dtype)
    return flat.reshape([shape[d] for d in order]).transpose(np.argsort(order))


def _failure(kind: int, number: int, error: BaseException) -> BuildError:
    """Says what failed, where, and why."""
    if kind == _KERNEL:
        what = f"the emulated kernel {_STATE.kernels[number].name} failed"
    elif kind == _INIT:
        what = f"the emulator of {_STATE.backends[number][0]} cannot load its part of the program"
    else:
        what = f"the emulator of {_STATE.delegates[number][0]} failed"
    hint = "It runs the program in the device's place: see et_backend(emulator = …)."
    if isinstance(error, BuildError):
        return BuildError(f"{what}: {error.what}", error.hint or hint)
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())
    failure = BuildError(
        f"{what}: {type(error).__name__}{': ' if text else ''}{text} "
        f"({Path(last.filename).name}:{last.lineno}).",
        hint,
    )
    failure.__cause__ = error
    return failure


_STATE = _State()
