"""EtScan: lists the operators and backends that a library of a runtime registers when loaded.

Contract: `etbundle.scan --label L --library FILE… --backend NAME… --output OUT`

The output is a list of lines, "operator aten::add.out", "backend VulkanBackend", and, for what a
backend's payloads may call, "payload_operator VulkanBackend aten.add.Tensor".

Both are registered with names that are constants of the library: they lie in the file, with a zero
at their end. So the file is searched for them; it is not loaded, as it may be for another platform.
Tests compare the result with what the same libraries register when loaded.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from etbuild.arguments import ToolParser
from etbuild.command import tool_main
from etbuild.errors import BuildError, listed
from etlink.container import REBUILD, write_text

from etbundle.binary import check_binary
from etbundle.payload_names import payload_names

# Ids that upstream's backends register, in all versions; a runtime can have others.
KNOWN_BACKENDS = (
    "CoreAIBackend",
    "CoreMLBackend",
    "CudaBackend",
    "EnnBackend",
    "EthosUBackend",
    "MLXBackend",
    "MPSBackend",
    "MetalBackend",
    "NativeBackend",
    "NeuropilotBackend",
    "NeutronBackend",
    "OpenvinoBackend",
    "QnnBackend",
    "TOSABackend",
    "VgfBackend",
    "VulkanBackend",
    "XnnpackBackend",
)

# The end of a name, which begins with what is searched fastest; its namespace lies before it.
_NAME = re.compile(rb"::([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)\0", re.ASCII)

# A whole string: it does not continue to the left. Binary data may come right before the first one.
_NAMESPACE = re.compile(rb"(?:\A|[^ -~])([A-Za-z_]\w*)\Z", re.ASCII)
_LONGEST_NAMESPACE = 128

# Looks like operators, but are what kernels of several operators call themselves in messages.
_NAMES_IN_MESSAGES = frozenset(
    {
        "quantized_decomposed::embedding_xbit.dtype_out",
        "quantized_decomposed::embedding_xbit.out",
    }
)


@dataclass(frozen=True)
class Registered:
    """The operators and backends that a library registers.

    Attributes:
      operators: e.g. "aten::add.out", sorted.
      backends: e.g. "XnnpackBackend", sorted.
      payload_operators: by backend, what its payloads may call: "aten.add.Tensor", sorted.
    """

    operators: tuple[str, ...]
    backends: tuple[str, ...]
    payload_operators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def scan(path: Path, known_backends: Iterable[str] = KNOWN_BACKENDS) -> Registered:
    """Finds operators and backends of a library, an object file or an archive.

    Args:
      path: an ELF or Mach-O file, such as a framework's binary, or an archive of object files.
      known_backends: ids to look for.

    Returns:
      What it registers.

    Raises:
      BuildError: the file cannot be read, or is not a library, or is damaged.

    Example:
      scan(Path("libexecutorch_backend_xnnpack.so")).backends  # ("XnnpackBackend",)
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BuildError(
            f"{path} cannot be read: {error.strerror}.", "Give the path of a library."
        ) from error
    check_binary(data, str(path))
    return registered(data, known_backends)


def write(path: Path, registered: Registered) -> None:
    """Writes the list."""
    lines = [f"operator {name}\n" for name in registered.operators]
    lines += [f"backend {name}\n" for name in registered.backends]
    lines += [
        f"payload_operator {backend} {name}\n"
        for backend, names in sorted(registered.payload_operators.items())
        for name in names
    ]
    write_text(path, "".join(lines))


def read(path: Path) -> Registered:
    """Reads the list.

    Raises:
      BuildError: a line is another one.
    """
    names: dict[str, list[str]] = {"operator": [], "backend": [], "payload_operator": []}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        kind, _, name = line.partition(" ")
        if kind not in names or not name:
            raise BuildError(
                f"{path}:{number}: got {line!r}, expected an operator or a backend.", REBUILD
            )
        names[kind].append(name)
    by_backend: dict[str, list[str]] = {}
    for entry in names["payload_operator"]:
        backend, _, name = entry.partition(" ")
        by_backend.setdefault(backend, []).append(name)
    payload_operators = {backend: tuple(listed) for backend, listed in by_backend.items()}
    return Registered(tuple(names["operator"]), tuple(names["backend"]), payload_operators)


def registered(data: bytes, known_backends: Iterable[str] = KNOWN_BACKENDS) -> Registered:
    """Reads what a library or an object registers out of its bytes."""
    backends = _backends(data, known_backends)
    return Registered(_operators(data), backends, payload_names(data, backends))


def _operators(data: bytes) -> tuple[str, ...]:
    names = []
    for match in _NAME.finditer(data):
        before = data[max(match.start() - _LONGEST_NAMESPACE, 0) : match.start()]
        namespace = _NAMESPACE.search(before)
        if namespace:
            names.append((namespace[1].decode(), match[1].decode()))
    # Names of C++ functions have no dot; of operators nearly all have, and some in each namespace.
    namespaces = {namespace for namespace, name in names if "." in name}
    operators = {f"{namespace}::{name}" for namespace, name in names if namespace in namespaces}
    return tuple(sorted(operators - _NAMES_IN_MESSAGES))


def _backends(data: bytes, known: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(backend for backend in known if _has_backend(data, backend.encode())))


def _has_backend(data: bytes, backend: bytes) -> bool:
    # With its length before it, it is a class's name in type information.
    type_name = b"%d%s" % (len(backend), backend)
    for match in re.finditer(re.escape(backend) + rb"\0", data):
        before = data[max(match.start() - 1, 0) : match.start()]
        in_type = data.endswith(type_name, 0, match.end() - 1)
        if not (before.isalpha() or before == b"_" or in_type):
            return True
    return False


def _check_backends(
    label: str, libraries: Sequence[Path], declared: Iterable[str], registered: set[str]
) -> None:
    for backend in declared:
        if backend not in registered:
            raise BuildError(
                f'{label}: backend "{backend}" not found in {libraries[0].name}. Available: '
                f"{listed(sorted(registered))}.",
                "Correct backends in its et_runtime_library.",
            )


@tool_main
def main(arguments: Sequence[str] | None = None) -> None:
    """Runs EtScan."""
    parser = ToolParser(prog="etbundle.scan", description=__doc__)
    parser.add_argument("--label", required=True)
    parser.add_argument("--library", type=Path, action="append", default=[])
    parser.add_argument("--backend", action="append", default=[])
    parser.add_argument("--output", type=Path, required=True)
    args = parser.parse_args(arguments)
    known = {*KNOWN_BACKENDS, *args.backend}
    scans = [scan(library, known) for library in args.library]
    backends = {backend for result in scans for backend in result.backends}
    _check_backends(args.label, args.library, args.backend, backends)
    operators = {operator for result in scans for operator in result.operators}
    payload_operators = {
        backend: tuple(sorted({n for s in scans for n in s.payload_operators.get(backend, ())}))
        for backend in {backend for result in scans for backend in result.payload_operators}
        if backend in args.backend
    }
    registered = Registered(
        tuple(sorted(operators)), tuple(sorted(args.backend)), payload_operators
    )
    write(args.output, registered)


if __name__ == "__main__":
    sys.exit(main())
