"""What transformers' own exporter replaces while a model is traced for ExecuTorch.

Some architectures call functions that torch.export cannot trace or ExecuTorch has no kernels for;
transformers keeps replacements with equal results for them, beside its modeling code. They are
installed around a module's `forward`, and only while it is exported: the eager model, with which
programs are compared, is transformers' own. Tracing has to run this code, so methods are exported
with strict = False. A replacement that gave other results would fail the program's test.
"""

from __future__ import annotations

import contextlib
import itertools
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


@contextlib.contextmanager
def replacements() -> Iterator[None]:
    """Installs the replacements for the time of a `with` block, if a module is being exported."""
    if not torch.compiler.is_exporting():
        yield
        return
    # Registers those for ExecuTorch; it imports much, and the eager model needs none of it.
    import transformers.exporters.exporter_executorch  # noqa: F401
    from transformers.exporters.utils import apply_patches

    ours = (_slices, _patches, _bags, _complex, _masks, _sorts, _slopes, _writes)
    with apply_patches("dynamo"), apply_patches("executorch"), contextlib.ExitStack() as stack:
        for patch in ours:
            stack.enter_context(patch())
        yield


class Constants:
    """What a module with inputs of fixed sizes reads of tensors as Python's numbers.

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

        with self._wrapped(replay):
            yield

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


@contextlib.contextmanager
def _slices() -> Iterator[None]:
    """Replaces functions that return lists of tensors by slices.

    At an operator with a list of results ExecuTorch fixes dynamic sizes to the example's.
    """
    originals = {
        (owner, name): getattr(owner, name)
        for owner in (torch, torch.Tensor)
        for name in ("chunk", "split", "unbind")
    }
    try:
        for owner in (torch, torch.Tensor):
            owner.chunk, owner.split, owner.unbind = _chunk, _split, _unbind
        # The function's argument has another name than the method's.
        torch.split = _split_or_sections
        yield
    finally:
        for (owner, name), original in originals.items():
            setattr(owner, name, original)


@contextlib.contextmanager
def _patches() -> Iterator[None]:
    """Replaces convolutions over three dimensions that see each frame of their input once.

    Encoders embed patches of films with them; ExecuTorch has kernels for two dimensions.
    """
    original = torch.nn.functional.conv3d

    def conv3d(
        input: torch.Tensor,
        weight: torch.Tensor,
        bias: Any = None,
        stride: Any = (1, 1, 1),
        padding: Any = (0, 0, 0),
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        if input.shape[1:] == weight.shape[1:]:
            values = torch.nn.functional.linear(input.flatten(1), weight.flatten(1), bias)
            return values[:, :, None, None, None]
        frames = weight.shape[2]
        # Of its dilations, groups and other forms, layers of encoders have none.
        is_plain = isinstance(stride, tuple) and isinstance(padding, tuple) and not kwargs
        is_plain = is_plain and args in ((), ((1, 1, 1), 1))
        if not is_plain or stride[0] != frames or padding[0] or input.shape[2] % frames:
            return original(input, weight, bias, stride, padding, *args, **kwargs)
        # The frames of a patch become channels.
        channels = input.unflatten(2, (-1, frames)).permute(0, 2, 1, 3, 4, 5)
        values = torch.nn.functional.conv2d(
            channels.flatten(2, 3).flatten(0, 1),
            weight.flatten(1, 2),
            bias,
            stride[1:],
            padding[1:],
        )
        return values.unflatten(0, (input.shape[0], -1)).transpose(1, 2)

    try:
        torch.nn.functional.conv3d = conv3d
        yield
    finally:
        torch.nn.functional.conv3d = original


@contextlib.contextmanager
def _bags() -> Iterator[None]:
    """Replaces weighted sums of embeddings, which ExecuTorch has no kernel for, by their steps."""
    original = torch.nn.functional.embedding_bag

    def embedding_bag(input: torch.Tensor, weight: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        weights = kwargs.get("per_sample_weights")
        if input.dim() != 2 or weights is None or kwargs.keys() - {"per_sample_weights", "mode"}:
            return original(input, weight, **kwargs)
        return (torch.nn.functional.embedding(input, weight) * weights.unsqueeze(-1)).sum(1)

    try:
        torch.nn.functional.embedding_bag = embedding_bag
        yield
    finally:
        torch.nn.functional.embedding_bag = original


@dataclass(frozen=True)
class _Complex:
    """Complex numbers as two tensors of one shape."""

    real: torch.Tensor
    imag: torch.Tensor

    def __mul__(self, other: Any) -> _Complex:
        if not isinstance(other, _Complex):
            return _Complex(self.real * other, self.imag * other)
        return _Complex(
            self.real * other.real - self.imag * other.imag,
            self.real * other.imag + self.imag * other.real,
        )

    def __getitem__(self, index: Any) -> _Complex:
        return _Complex(self.real[index], self.imag[index])

    def __getattr__(self, name: str) -> Any:
        """Of methods that move elements, which do so in both tensors."""
        both = (getattr(self.real, name), getattr(self.imag, name))
        if not callable(both[0]):
            return both[0]
        return lambda *args, **kwargs: _Complex(*[move(*args, **kwargs) for move in both])


@contextlib.contextmanager
def _complex() -> Iterator[None]:
    """Replaces complex numbers, which ExecuTorch has no kernels for, by two tensors.

    Positions turn queries and keys with them.
    """
    originals = {
        name: getattr(torch, name) for name in ("polar", "view_as_complex", "view_as_real")
    }

    def polar(abs: torch.Tensor, angle: torch.Tensor) -> _Complex:
        return _Complex(abs * angle.cos(), abs * angle.sin())

    def view_as_complex(input: torch.Tensor) -> _Complex:
        return _Complex(input[..., 0], input[..., 1])

    def view_as_real(input: Any) -> torch.Tensor:
        if not isinstance(input, _Complex):
            return originals["view_as_real"](input)
        return torch.stack([input.real, input.imag], dim=-1)

    try:
        torch.polar, torch.view_as_complex, torch.view_as_real = (
            polar,
            view_as_complex,
            view_as_real,
        )
        yield
    finally:
        for name, original in originals.items():
            setattr(torch, name, original)


@contextlib.contextmanager
def _sorts() -> Iterator[None]:
    """Replaces sorting, which ExecuTorch has no kernel for, by the largest of all elements."""

    def sort(
        input: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = False
    ) -> Any:
        count = input.shape[dim]
        if input.is_floating_point():
            return torch.topk(input, count, dim, largest=descending)
        # Among equal numbers the first comes first, which `topk` does not promise.
        places = torch.arange(count - 1, -1, -1) if descending else torch.arange(count)
        keys = input.transpose(dim, -1).long() * count + places
        indices = torch.topk(keys, count, largest=descending).indices.transpose(dim, -1)
        return torch.return_types.sort((input.gather(dim, indices), indices))

    def argsort(
        input: torch.Tensor, dim: int = -1, descending: bool = False, stable: bool = False
    ) -> torch.Tensor:
        return sort(input, dim, descending).indices

    owners = (torch, torch.Tensor)
    originals = [(owner, owner.sort, owner.argsort) for owner in owners]
    try:
        for owner in owners:
            owner.sort, owner.argsort = sort, argsort
        yield
    finally:
        for owner, *kept in originals:
            owner.sort, owner.argsort = kept


@contextlib.contextmanager
def _slopes() -> Iterator[None]:
    """Replaces PReLU of anything but images, which XNNPACK takes and cannot lower."""
    functional = torch.nn.functional
    original = functional.prelu

    def prelu(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if input.dim() == 4:
            return original(input, weight)
        slopes = weight if len(weight) == 1 else weight.view(-1, *[1] * (input.dim() - 2))
        return functional.relu(input) - slopes * functional.relu(-input)

    try:
        functional.prelu = prelu
        yield
    finally:
        functional.prelu = original


class _Places(tuple[torch.Tensor, ...]):
    """The places of a mask's elements, and the mask."""

    mask: torch.Tensor


@contextlib.contextmanager
def _writes() -> Iterator[None]:
    """Writes a number where a mask is, not to its places, of which a program has unknown many."""
    where, write = torch.where, torch.Tensor.__setitem__

    def places_or_values(condition: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            return where(condition, *args, **kwargs)
        places = _Places(where(condition))
        places.mask = condition
        return places

    def write_masked(tensor: torch.Tensor, index: Any, value: Any) -> None:
        if isinstance(index, _Places) and not isinstance(value, torch.Tensor):
            mask = index.mask
            tensor.masked_fill_(mask.view(*mask.shape, *[1] * (tensor.dim() - mask.dim())), value)
        else:
            write(tensor, index, value)

    try:
        torch.where, torch.Tensor.__setitem__ = places_or_values, write_masked
        yield
    finally:
        torch.where, torch.Tensor.__setitem__ = where, write


@contextlib.contextmanager
def _masks() -> Iterator[None]:
    """Pads masks of a size that is known at run time, by nothing where they are whole.

    Models that make a mask of the tokens so far have one as long as these; upstream asks whether it
    is shorter than the cache.
    """
    from transformers import masking_utils

    original = masking_utils.prepare_padding_mask

    def prepare_padding_mask(mask: Any, kv_length: int, kv_offset: int) -> Any:
        lengths = () if mask is None else (kv_length, kv_offset, mask.shape[-1])
        if [isinstance(length, torch.SymInt) for length in lengths] != [False, False, True]:
            return original(mask, kv_length, kv_offset)
        positions = torch.arange(kv_length + kv_offset)
        last = torch.full_like(positions, mask.shape[-1] - 1)
        padded = mask.index_select(-1, torch.minimum(positions, last))
        return padded * (positions <= last).to(mask.dtype)

    try:
        masking_utils.prepare_padding_mask = prepare_padding_mask
        yield
    finally:
        masking_utils.prepare_padding_mask = original


def _chunk(input: torch.Tensor, chunks: int, dim: int = 0) -> tuple[torch.Tensor, ...]:
    return _split(input, -(-input.shape[dim] // chunks), dim)


def _split(
    tensor: torch.Tensor, split_size: int | Sequence[int], dim: int = 0
) -> tuple[torch.Tensor, ...]:
    size = tensor.shape[dim]
    if isinstance(split_size, int | torch.SymInt):
        return tuple(
            tensor.narrow(dim, start, min(split_size, size - start))
            for start in range(0, int(size), int(split_size))
        )
    starts = itertools.accumulate(split_size, initial=0)
    return tuple(tensor.narrow(dim, *each) for each in zip(starts, split_size, strict=False))


def _split_or_sections(
    tensor: torch.Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0
) -> tuple[torch.Tensor, ...]:
    return _split(tensor, split_size_or_sections, dim)


def _unbind(input: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, ...]:
    return tuple(input.select(dim, i) for i in range(int(input.shape[dim])))
