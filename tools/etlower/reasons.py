"""Reasons why partitioners left nodes to ExecuTorch's own kernels, in their own words.

Partitioners say it in four ways, and mostly log it. Here their calls are watched instead, so that
no logger has to be turned up and nothing has to be read out of texts.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch.fx import Node

from etlower import operators
from etlower.replacing import replaced

_MOST = 300


class Reasons:
    """The reasons that were given while programs were lowered.

    Attributes:
      by_node: (operator, node, shapes) to the reasons by backend.
    """

    def __init__(self) -> None:
        self.by_node: dict[tuple[str, str, str], dict[str, str]] = {}
        # The node that a support check is looking at.
        self._node: Node | None = None
        # Nodes that the partitioner at work has given a reason for.
        self._told: set[tuple[str, str, str]] = set()

    def of(self, node: Node) -> Mapping[str, str]:
        """Reasons for a node of a lowered program, by backend; empty: nobody said any.

        Passes after partitioning rename nodes: they get what was said of all calls of the operator.
        """
        own = self.by_node.get(_key(node))
        if own is not None:
            return own
        said = [r for (name, _, _), r in self.by_node.items() if name == operators.name(node)]
        return said[0] if said and all(r == said[0] for r in said) else {}

    def keep(self, backend: str, node: Any, reason: Any) -> None:
        """Keeps a reason: the first that each partitioner gives, and the last partitioner's.

        The second reason of one partitioner is less specific ("invalid dtype"), and so is that of
        one which only takes some precisions and leaves all others to the next.
        """
        if not isinstance(node, Node) or not operators.name(node):
            return
        key = _key(node)
        if key not in self._told:
            self._told.add(key)
            self.by_node.setdefault(key, {})[backend] = plain(str(reason))

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Listens; what this version of upstream doesn't have is left alone."""
        from executorch.exir.backend import partitioner as executorch_partitioner
        from executorch.exir.backend import utils
        from torch.fx.passes.infra import partitioner

        watched = (
            (getattr(utils, "WhyNoPartition", None), "__call__", self._why),
            (getattr(utils, "WhyNoPartitionReporter", None), "report_reject", self._why),
            (getattr(executorch_partitioner, "Partitioner", None), "__call__", self._start),
            (partitioner.CapabilityBasedPartitioner, "_is_node_supported", self._check),
            (_loaded(_VULKAN, "VulkanSupportedOperators"), "log_skip", self._why),
            (_loaded(_COREML, "_OperatorsSupportedForCoreMLBackend"), "log_once", self._log),
        )
        with replaced(
            *(
                (owner, name, watch(getattr(owner, name)))
                for owner, name, watch in watched
                if hasattr(owner, name)
            )
        ):
            yield

    def _why(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is given a node and a reason: XNNPACK's, Arm's, Vulkan's."""

        def why(speaker: Any, node: Any, reason: Any) -> Any:
            self.keep(_backend(speaker), node, reason)
            return original(speaker, node, reason)

        return why

    def _log(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is given a text about the node that is being looked at: CoreML's."""

        def log(speaker: Any, text: str) -> Any:
            if self._node is not None:
                self.keep(_backend(speaker), self._node, text)
            return original(speaker, text)

        return log

    def _start(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def start(partitioner: Any, program: Any) -> Any:
            self._told.clear()
            return original(partitioner, program)

        return start

    def _check(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def check(partitioner: Any, node: Node) -> bool:
            self._node = node
            try:
                return original(partitioner, node)
            finally:
                self._node = None

        return check


_VULKAN = "executorch.backends.vulkan.partitioner.vulkan_partitioner"
_COREML = "executorch.backends.apple.coreml.partition.coreml_partitioner"


def _loaded(module: str, name: str) -> Any:
    """A class of a backend, if a recipe has imported it."""
    return getattr(sys.modules.get(module), name, None)


def _backend(speaker: Any) -> str:
    """The backend that a speaker belongs to, as upstream's folders name it: "xnnpack"."""
    logger = getattr(speaker, "logger", None)
    module = logger.name if logger is not None else type(speaker).__module__
    if module.startswith("executorch.exir.backend"):
        # Arm's reporter, which is one of upstream's common classes and has no logger.
        return ""
    parts = module.removeprefix("executorch.backends.").split(".")
    return parts[1] if parts[0] == "apple" else parts[0]


def _key(node: Node) -> tuple[str, str, str]:
    # Methods have nodes of the same names; those of equal shapes are refused for equal reasons.
    shapes = [tuple(tensor.shape) for tensor in operators.inputs(node)]
    return operators.name(node), node.name, str(shapes)


def plain(text: str) -> str:
    """A reason on one line that is the same in each run."""
    text = re.sub(r"\{([^{}]*)\}", _sorted, " ".join(text.split()))
    text = re.sub(r"( at)? 0x[0-9a-f]+", "", text).removesuffix(".")
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"


def _sorted(braces: re.Match[str]) -> str:
    """A set as text: its order differs from run to run."""
    return "{" + ", ".join(sorted(braces[1].split(", "))) + "}"
