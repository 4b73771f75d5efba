"""Adapters by name share XNNPACK's weight cache, or are refused: payloads of tiny nets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import lora
import numpy as np
import torch
from etlink import manifest
from synthetic import link_with

from tests.integration.runner.runner_process import (
    contents,
    rewrite_data,
    run,
    write_adapter_manifest,
)


class Pair(torch.nn.Module):
    """Two linear layers, whose weights have names of one character.

    Args:
      weights: of both.
    """

    def __init__(self, *weights: torch.Tensor) -> None:
        super().__init__()
        self.a, self.b = (torch.nn.Parameter(weight) for weight in weights)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, WIDTH)."""
        linear = torch.nn.functional.linear
        return linear(linear(x, self.a), self.b)


def built(folder: Path, net: torch.nn.Module, **config: bool) -> Path:
    """A program whose weights have their names as keys, with its manifest."""
    source = lora.lowered(net, folder / "lowered", f"//m:{folder.name}", **config)
    linked, program, _ = link_with(source, folder, separate=True, adapter_data="by_name")
    manifest.write(manifest.beside(program), linked.manifest)
    return program


def other(program: Path, number: int, equal: bool = False) -> Path:
    """Another adapter's file for a program; `equal`: all of its weights have the same bytes."""
    data = program.with_suffix(".ptd")
    own = contents(data)
    first = next(iter(own.values()))
    scaled = {
        key: (np.frombuffer(first if equal else value, np.float32) * number).tobytes()
        for key, value in own.items()
    }
    path = data.with_name(f"other_{number}.ptd")
    rewrite_data(data, path, scaled)
    interface = manifest.read(manifest.beside(program)).programs["p"].interface
    write_adapter_manifest(path, interface)
    return path


def is_on(groups: Sequence[Sequence[str | Path]], folder: Path) -> bool:
    """Tells whether the cache is on for programs; they must compute the same without it."""
    outputs = {}
    for flag in ("--no_weight_cache", "--json"):
        words: list[str | Path] = []
        for number, group in enumerate(groups):
            words += [*group, "--output", folder / flag / str(number)]
        result = run("--json", *words, *([flag] if flag != "--json" else []))
        assert result.code == 0, result.error
        paths = [folder / flag / str(n) / "output_0.npy" for n in range(len(groups))]
        outputs[flag] = [np.load(path) for path in paths]
    for one, two in zip(*outputs.values(), strict=True):
        assert one.any()
        np.testing.assert_array_equal(one, two)
    return result.report["weight_cache"]


def test_programs_of_two_adapters(tmp_path: Path) -> None:
    one, two = (built(tmp_path / str(seed), lora.Net(seed)) for seed in (1, 2))
    assert one.read_bytes() == two.read_bytes()
    assert is_on([["--program", one], ["--program", two]], tmp_path)


def test_without_manifests(tmp_path: Path) -> None:
    """Nothing says what is packed, and how."""
    program = built(tmp_path / "p", lora.Net(1))
    others = [["--program", program, "--data", other(program, number)] for number in (2, 3)]
    program.with_name("p.manifest.json").unlink()
    assert not is_on(others, tmp_path)
    error = run("--weight_cache", *others[0], *others[1]).error
    assert "no manifest says how its weights are packed" in error


def test_payloads_in_the_tables(tmp_path: Path) -> None:
    """The loader, which replaces the names, does not load these."""
    program = built(tmp_path / "p", lora.Net(1), extract_delegate_segments=False)
    groups: list[list[str | Path]] = [["--program", program]]
    assert is_on(groups, tmp_path)
    groups.append(["--program", program, "--data", other(program, 2)])
    assert not is_on(groups, tmp_path)
    assert "in different ways" in run("--weight_cache", *groups[0], *groups[1]).error


def test_names_that_are_too_short_for_a_hash(tmp_path: Path) -> None:
    """Of 17 adapters, two have the same hash of one character."""
    program = built(tmp_path / "p", Pair(torch.randn(8, lora.WIDTH), torch.randn(lora.WIDTH, 8)))
    assert set(contents(program.with_suffix(".ptd"))) == {"a", "b"}
    others = [["--program", program, "--data", other(program, n)] for n in range(2, 18)]
    assert not is_on([["--program", program], *others], tmp_path)


def test_weights_of_equal_bytes_in_one_file(tmp_path: Path) -> None:
    """XNNPACK tells them by address, and packs them in two shapes."""
    layers = (torch.nn.Linear(*sizes, bias=False) for sizes in ((lora.WIDTH, 8), (8, lora.WIDTH)))
    program = built(tmp_path / "p", torch.nn.Sequential(*layers))
    equal = ["--program", program, "--data", other(program, 2, equal=True)]
    assert is_on([equal], tmp_path)
    assert is_on([["--program", program], equal], tmp_path)
