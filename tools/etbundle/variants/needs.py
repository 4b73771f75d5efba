"""Needs of a program's payloads, as conditions on a device that nobody has to write.

Payloads are read, not recipes: what is checked is what is shipped.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from etlink import pte, tables
from etlink.container import REBUILD
from etlink.flatbuffer import Buffer, Table, field_table, number
from etlink.variants import Condition
from flatbuffers import number_types as numbers

# SOC of Qualcomm's that a payload is for, by upstream's number:
# backends/qualcomm/serialization/qc_compiler_spec.fbs, QcomChipset.
_CHIPS = {
    30: "SM8350",
    36: "SM8450",
    39: "SA8295",
    42: "SM8475",
    43: "SM8550",
    45: "SXR1230P",
    46: "SSG2115P",
    52: "SA8255",
    53: "SXR2230P",
    57: "SM8650",
    58: "SSG2125P",
    60: "SC8380XP",
    69: "SM8750",
    72: "SA8797",
    75: "SXR2330P",
    77: "QCS9100",
    87: "SM8850",
    93: "QCM6490",
    95: "SAR2230P",
    96: "SW6100",
    97: "SM8845",
}
_APPLE = Condition(fact="os", any_of=("ios", "macos"))


def of_program(path: Path) -> tuple[Condition, ...]:
    """Reads what a program needs of a device.

    Args:
      path: the .pte file.

    Returns:
      Conditions, each once; none: it runs wherever a runtime has its operators and backends.

    Raises:
      BuildError: the file is damaged, or a payload does not say what it is for.
    """
    found: list[Condition] = []
    for plan in pte.read(path).program.executionPlan or []:
        for delegate in plan.delegates or []:
            reader = _READERS.get(tables.text(delegate.id))
            for condition in reader(delegate, path) if reader else ():
                if condition not in found:
                    found.append(condition)
    return tuple(found)


def _qnn(delegate: Any, path: Path) -> tuple[Condition, ...]:
    """A context of QNN is for one chip, which the options of its lowering name."""
    for spec in delegate.compileSpecs or []:
        if tables.text(spec.key) == "qnn_compile_spec":
            try:
                data = bytes(spec.value)
                options = Table(Buffer(data), struct.unpack_from("<I", data)[0])
                chip = number(field_table(options, 0), 0, numbers.Int32Flags)
            except Exception as error:  # Numbers out of range raise whatever they lead to.
                raise _no_chip(path, "its options are damaged") from error
            if chip not in _CHIPS:
                raise _no_chip(path, f"chip {chip} is none that these rules know")
            return (Condition(fact="soc", any_of=(_CHIPS[chip],)),)
    raise _no_chip(path, "it has no options of QNN")


def _no_chip(path: Path, problem: str) -> BuildError:
    return BuildError(f"{path}: a payload of QnnBackend does not say its chip: {problem}.", REBUILD)


def _always(*conditions: Condition) -> Callable[[Any, Path], tuple[Condition, ...]]:
    return lambda _, __: conditions


_READERS: dict[str, Callable[[Any, Path], tuple[Condition, ...]]] = {
    "CoreMLBackend": _always(_APPLE),
    "MLXBackend": _always(_APPLE),
    "MPSBackend": _always(_APPLE),
    "QnnBackend": _qnn,
    # Upstream's runtime asks for an instance of this version (backends/vulkan/runtime/vk_api).
    "VulkanBackend": _always(Condition(fact="vulkan", at_least="1.1")),
}
