"""A synthetic program with shared weights and an adapter of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from etlink.manifest import Manifest, Program
from synthetic import link_with, program, renamed, shared_file

BASE = bytes(range(200)) * 5
LORA = b"rank" * 30


@dataclass
class Built:
    """A linked program: its manifest and its files."""

    manifest: Manifest
    program: Path
    data: Path
    shared: Path

    @property
    def entry(self) -> Program:
        """The program in the manifest."""
        (program,) = self.manifest.programs.values()
        return program


def build(folder: Path, name: str, lora: bytes = LORA, base: bytes = BASE) -> Built:
    """Builds a program //m:<name> with a shared base and an adapter of its own."""
    folder.mkdir(exist_ok=True)
    shared_path = folder / "foundation.ptd"
    source = program(folder / f"base_of_{name}", "//m:base", {"embedding": base})
    index = shared_file(shared_path, "//m:foundation", source)
    weights = {"embedding": base, "lora_a": lora}
    lowered = program(folder / f"lowered_{name}", f"//m:{name}", weights)
    options = {"separate": True, "adapter_data": "by_name"}
    linked, path, data = link_with(lowered, folder / name, index, **options)
    # The files of a target have its name.
    own, data = renamed(linked, data, name)
    return Built(own, path, data, shared_path)
