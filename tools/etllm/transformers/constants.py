"""Numbers that encoders read of tensors, recorded as they run and replayed as they are traced."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from etbuild import BuildError
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

# Methods of a tensor that give Python's numbers, or as many as its values say.
_READERS = ("__bool__", "__index__", "__int__", "item", "nonzero", "tolist")
# Methods of a tensor whose other arguments are sizes.
_SIZED = ("expand", "repeat", "reshape", "view")
# How functions of sizes alone begin.
_SIZES = ("get_vision_", "get_audio_")
# A file of code and the number of a line in it.
_Line = tuple[str, int]


class Constants:
    """The tensors that a module with inputs of fixed sizes reads as Python's numbers.

    Encoders of images compute indices from the image's size, and read lengths back with `tolist`
    or `int`, which are unknown numbers of a traced tensor. They are the same for each image of a
    size, so they are recorded from eager runs and replayed while the module is traced, in the order
    of the calls from each line of code.

    Args:
      model: of transformers; functions of its parts' modules named get_vision_* and get_audio_*
        are recorded as a whole.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._label = type(model).__module__
        self._modules = sorted({type(part).__module__ for part in model.modules()})
        self._files = {sys.modules[name].__file__ for name in self._modules}
        self._values: dict[_Line, list[Any]] = {}
        # As they are before a replacement is installed.
        self._forwards = {type(part): type(part).forward for part in model.modules()}

    def record(
        self, run: Callable[[Any], Any], inputs: Sequence[Any], may_differ: bool = False
    ) -> None:
        """Runs a function with several inputs of the same sizes.

        Args:
          run: takes one of the inputs.
          inputs: at least two.
          may_differ: what depends on more than the inputs' sizes is not recorded, for models that
            export without it.

        Raises:
          BuildError: what it reads depends on more than their sizes.
        """
        records: list[dict[_Line, list[Any]]] = []
        for value in inputs:
            records.append({})
            with self._wrapped(
                lambda line, call, record=records[-1]: _recorded(call, record.setdefault(line, []))
            ):
                run(value)
        if not may_differ and any(record != records[0] for record in records):
            raise BuildError(
                f"{self._label}: sizes inside the encoder depend on its input's values, "
                "expected ones that depend on the input's size alone.",
                "Declare the model with et_model and its own code.",
            )
        self._values = {
            line: values
            for line, values in records[0].items()
            if all(record.get(line) == values for record in records)
        }

    @contextlib.contextmanager
    def replayed(self) -> Iterator[None]:
        """Replays what was recorded for the time of a `with` block, if a module is exported."""
        if not torch.compiler.is_exporting() or not self._values:
            yield
            return
        left = {line: iter(values) for line, values in self._values.items()}

        def replay(line: _Line, call: Callable[[], Any]) -> Any:
            for value in left.get(line, ()):
                return _tensors(value)
            # A line that tracing alone comes to.
            return call()

        with self._wrapped(replay), self._own_forwards():
            yield

    @contextlib.contextmanager
    def _own_forwards(self) -> Iterator[None]:
        """Undoes replacements of layers that cut a sequence into parts of several lengths.

        transformers' replacement makes a batch of the parts, which are equally long for it.
        """
        unequal = {
            line
            for line, values in self._values.items()
            if any(isinstance(value, list) and len(set(map(str, value))) > 1 for value in values)
        }
        own = [
            (kind, forward)
            for kind, forward in self._forwards.items()
            if kind.forward is not forward and any(map(functools.partial(_has, forward), unequal))
        ]
        replaced = [(kind, kind.forward) for kind, _ in own]
        try:
            for kind, forward in own:
                kind.forward = forward
            yield
        finally:
            for kind, forward in replaced:
                kind.forward = forward

    def _line(self) -> _Line:
        """The line of the model's code that is being run."""
        frame = sys._getframe(1)
        while frame.f_back and frame.f_code.co_filename not in self._files:
            frame = frame.f_back
        return frame.f_code.co_filename, frame.f_lineno

    @contextlib.contextmanager
    def _wrapped(self, handle: Callable[[_Line, Callable[[], Any]], Any]) -> Iterator[None]:
        """Has `handle` answer the calls; it gets their line, and the call that it may make."""
        owners: list[tuple[Any, str]] = [(torch.Tensor, name) for name in _READERS]
        # While a module is traced, its tensors are of these classes.
        for kind in (FakeTensor, FunctionalTensor):
            owners += [(kind, name) for name in _READERS if name in vars(kind)]
        for module in map(sys.modules.__getitem__, self._modules):
            owners += [(module, name) for name in dir(module) if name.startswith(_SIZES)]
        originals = [(owner, name, getattr(owner, name)) for owner, name in owners]
        inside = False

        def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal inside
                if inside:
                    return original(*args, **kwargs)
                inside = True
                try:
                    return handle(self._line(), lambda: original(*args, **kwargs))
                finally:
                    inside = False

            return call

        def number(size: Any) -> Any:
            return size if inside or not isinstance(size, torch.Tensor) else int(size)

        places = wrapper(lambda mask: mask.nonzero(as_tuple=True))
        try:
            for owner, name, original in originals:
                setattr(owner, name, wrapper(original))
            with _Selections(places, number):
                yield
        finally:
            for owner, name, original in originals:
                setattr(owner, name, original)


class _Selections(TorchFunctionMode):
    """Elements that a mask selects are selected by their places; tensors as bounds are numbers.

    How many elements there are is a number that is read of a tensor, too.

    Args:
      places: of a mask.
      number: of a size or a bound that may be a tensor.
    """

    def __init__(
        self,
        places: Callable[[torch.Tensor], tuple[torch.Tensor, ...]],
        number: Callable[[Any], Any],
    ) -> None:
        super().__init__()
        self.places = places
        self.number = number

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.Tensor.__getitem__:
            tensor, index = args
            if isinstance(index, torch.Tensor) and index.dtype == torch.bool:
                args = (tensor, self.places(index))
            elif isinstance(index, tuple | slice):
                parts = index if isinstance(index, tuple) else (index,)
                args = (tensor, tuple(map(self._bounded, parts)))
        # As they are now: some are replaced while a module is traced.
        elif function in [getattr(torch.Tensor, name) for name in _SIZED]:
            tensor, *sizes = args
            args = (tensor, *map(self.number, sizes))
        elif function is torch.arange:
            args = tuple(map(self.number, args))
        elif function is torch.nn.functional.interpolate and isinstance(kwargs["size"], tuple):
            kwargs["size"] = tuple(map(self.number, kwargs["size"]))
        return function(*args, **(kwargs or {}))

    def _bounded(self, part: Any) -> Any:
        """A part of an index, with numbers as the bounds of a slice."""
        if not isinstance(part, slice):
            return part
        return slice(*map(self.number, (part.start, part.stop, part.step)))


def _has(function: Callable[..., Any], line: _Line) -> bool:
    """Returns whether a line is in a function."""
    code = inspect.unwrap(function).__code__
    numbers = [number for _, _, number in code.co_lines() if number is not None]
    return code.co_filename == line[0] and min(numbers) <= line[1] <= max(numbers)


def _recorded(call: Callable[[], Any], record: list[Any]) -> Any:
    """The call's result, which is recorded with tensors as lists, beside their types."""
    result = call()
    record.append(
        pytree.tree_map_only(torch.Tensor, lambda each: _Values(each.tolist(), each.dtype), result)
    )
    return result


@dataclass(frozen=True)
class _Values:
    """A tensor's elements and type."""

    elements: Any
    dtype: torch.dtype


def _tensors(record: Any) -> Any:
    return pytree.tree_map_only(
        _Values,
        lambda each: torch.tensor(each.elements, dtype=each.dtype),
        record,
        is_leaf=lambda each: isinstance(each, _Values),
    )
