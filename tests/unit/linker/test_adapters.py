"""One program with many adapters, which it loads by name: real XNNPACK payloads. Needs torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lora
import pytest
import torch
from etbuild import BuildError
from etlink import adapter_values, payload
from etlink import manifest as manifests
from etlink.adapter_values import Values
from etlink.link import Linked
from etlink.lowered import Lowered
from etlink.manifest import Manifest
from etlink.named_data import NamedData
from executorch.backends.xnnpack.recipes import XNNPackRecipeType
from lora import Net, X, lowered, portable
from runner.runtime import Program
from synthetic import Shared, contents, link_with, only_program, program, renamed, shared_file

NAMES = [f"layers.{n}.{w}" for n in (0, 1) for w in ("lora_a.weight", "lora_b.weight", "scaling")]
BY_NAME: dict[str, Any] = {"separate": True, "adapter_data": "by_name"}


@dataclass
class Built:
    """A linked program with its own data file."""

    net: Net
    linked: Linked
    manifest: Manifest
    program: Path
    data: Path

    def run(self, shared: Path, data: Path | None = None) -> torch.Tensor:
        """Runs the program with an adapter, after the check that a user would make."""
        files, path = [data or self.data, shared], self.program.parent / "run.manifest.json"
        manifests.write(path, self.manifest)
        with Program(self.program, files, path) as program:
            return torch.from_numpy(program.run("forward", [X.numpy()])[0])


class Builds:
    """A foundation, and programs of it that are lowered once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.base = lowered(Net(0), folder / "base", "//m:base")
        self.shared = folder / "foundation.ptd"
        exclude = ["*.lora_?.weight", "*.scaling"]
        self.index: Shared = shared_file(self.shared, "//m:foundation", self.base, exclude=exclude)
        self._built: dict[str, Built] = {}

    def build(self, name: str, **arguments: Any) -> Built:
        """A program of an adapter; arguments are Net's."""
        if name not in self._built:
            net = Net(**arguments)
            source = lowered(net, self.folder / name, f"//m:{name}")
            folder = self.folder / f"{name}_out"
            allowed = {"allow_unshared": True} if "base" in arguments else {}
            linked, path, data = link_with(source, folder, self.index, **BY_NAME, **allowed)
            # The name of a target's files; the program's own name would be taken for its own data.
            manifest, data = renamed(linked, data, name)
            self._built[name] = Built(net, linked, manifest, path, data)
        return self._built[name]


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> Builds:
    """One foundation for all tests."""
    return Builds(tmp_path_factory.mktemp("adapters"))


def test_two_adapters_have_one_program(builds: Builds) -> None:
    one, two = builds.build("one", seed=1), builds.build("two", seed=2)
    assert one.program.read_bytes() == two.program.read_bytes()
    assert list(contents(one.data)) == list(contents(two.data)) == NAMES
    assert contents(one.data) != contents(two.data)
    whole = one.program.read_bytes()
    assert not any(data in whole for data in contents(one.data).values() if len(data) > 4)
    # No sha256 of an adapter's weight is left in the program.
    keys = [n.key for n in builds.base.index.named_data]
    assert not any(k.encode() in whole for k in keys if k not in builds.index.file.by_key())


def test_one_program_runs_with_both(builds: Builds) -> None:
    one, two = builds.build("one", seed=1), builds.build("two", seed=2)
    with torch.no_grad():
        expected = [built.net.eval()(X) for built in (one, two)]
    torch.testing.assert_close(one.run(builds.shared), expected[0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(one.run(builds.shared, two.data), expected[1], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(*expected, atol=1e-2)


def test_an_alpha_that_is_a_weight_belongs_to_the_adapter(builds: Builds) -> None:
    one, strong = builds.build("one", seed=1), builds.build("strong", seed=1, alpha=32)
    assert one.program.read_bytes() == strong.program.read_bytes()
    with torch.no_grad():
        expected = strong.net.eval()(X)
    torch.testing.assert_close(one.run(builds.shared, strong.data), expected, atol=1e-3, rtol=1e-4)


def test_adapters_before_training_have_equal_bytes_under_two_names(builds: Builds) -> None:
    one, zero = builds.build("one", seed=1), builds.build("zero", seed=3, zero=True)
    assert one.program.read_bytes() == zero.program.read_bytes()
    result = contents(zero.data)
    assert list(result) == NAMES
    assert result["layers.0.lora_b.weight"] == result["layers.1.lora_b.weight"] == bytes(512)
    with torch.no_grad():
        expected = zero.net.eval()(X)
    torch.testing.assert_close(one.run(builds.shared, zero.data), expected, atol=1e-4, rtol=1e-4)


def test_another_rank_is_refused(builds: Builds) -> None:
    one, wide = builds.build("one", seed=1), builds.build("wide", seed=1, rank=8)
    with pytest.raises(BuildError) as caught:
        one.run(builds.shared, wide.data)
    assert (
        f'{wide.data} does not fit //m:one: its key "layers.0.lora_a.weight" has 1024 bytes, '
        "expected 512 (another rank or base)"
    ) in caught.value.what


def test_an_adapter_of_another_base_is_refused(builds: Builds) -> None:
    one, other = builds.build("one", seed=1), builds.build("other", seed=1, base=7)
    with pytest.raises(BuildError) as caught:
        one.run(builds.shared, other.data)
    assert f"{other.data} does not fit //m:one: its program has other base" in caught.value.what


def test_by_content_gives_programs_of_their_own(builds: Builds, tmp_path: Path) -> None:
    result = [
        link_with(Lowered(builds.folder / name / "lowered"), tmp_path / name, builds.index)
        for name in ("one", "two")
        if builds.build(name, seed=1 if name == "one" else 2)
    ]
    assert result[0][1].read_bytes() != result[1][1].read_bytes()


def test_a_weight_of_the_adapter_in_the_shared_file(builds: Builds, tmp_path: Path) -> None:
    builds.build("two", seed=2)
    source = Lowered(builds.folder / "two" / "lowered")
    taken = program(tmp_path / "t", "//m:t", {"layers.0.lora_a.weight": b"1234" * 128})
    also = shared_file(tmp_path / "t.ptd", "//m:t_data", taken, builds.base)
    options = {**BY_NAME, "allow_unshared": True, "own_data": ["*.scaling"]}
    with pytest.raises(BuildError) as caught:
        link_with(source, tmp_path / "out", also, **options)
    assert caught.value.what.endswith("has the name of a key in its shared data.")
    assert 'its own weight "layers.' in caught.value.what


def test_a_program_without_names_is_refused(tmp_path: Path) -> None:
    source = program(tmp_path / "l", "//m:l", {"_frozen_param0": b"1234" * 999})
    with pytest.raises(BuildError) as caught:
        link_with(source, tmp_path / "out", **BY_NAME)
    assert caught.value.what == (
        '//m:l: adapter_data = "by_name", but none of the 1 weights of its own has a name.'
    )


def test_data_without_a_name_stay_in_the_program(tmp_path: Path) -> None:
    weights = {"_frozen_param0": b"1234" * 999, "lora_a": b"rank" * 9}
    source = program(tmp_path / "l", "//m:l", weights, {"unknown": b"no payload names it"})
    linked, path, data = link_with(source, tmp_path / "out", **BY_NAME)
    assert contents(data) == {"lora_a": b"rank" * 9}
    assert b"1234" * 999 in path.read_bytes() and b"no payload names it" in path.read_bytes()
    assert len(linked.embedded) == 2


# Values instead of placeholders


def values_of(folder: Path, was: torch.nn.Module, now: torch.nn.Module, *names: str) -> Values:
    """Writes values as EtAdapt does where the entry point returns these names."""
    folder.mkdir()
    before, after = was.state_dict(), now.state_dict()
    adapter_values.write(
        folder,
        [
            adapter_values.add(folder, n, "float32", after[n].shape, raw(before[n]), raw(after[n]))
            for n in names
        ],
        [hashlib.sha256(raw(before[n])).hexdigest() for n in NAMES],
    )
    return adapter_values.read(folder)


def raw(tensor: torch.Tensor) -> bytes:
    """A tensor's bytes."""
    return tensor.contiguous().numpy().tobytes()


@pytest.mark.parametrize("kept", [range(6), [0, 1, 2, 3, 4], [1]])
def test_placeholders_never_leave_the_linker(
    builds: Builds, tmp_path: Path, kept: Iterable[int]
) -> None:
    one, two = builds.build("one", seed=1), builds.build("two", seed=2)
    names = [NAMES[n] for n in kept]
    values = values_of(tmp_path / "values", one.net, two.net, *names)
    source = Lowered(builds.folder / "one" / "lowered", more=tmp_path / "values")
    if len(names) == len(NAMES):
        _, path, data = link_with(source, tmp_path / "out", builds.index, **BY_NAME, values=values)
        assert path.read_bytes() == two.program.read_bytes()
        assert data.read_bytes() == two.data.read_bytes()
        return
    with pytest.raises(BuildError) as caught:
        link_with(source, tmp_path / "out", builds.index, **BY_NAME, values=values)
    missing = next(n for n in NAMES if n not in names)
    assert f'left placeholders of the adapter in "{missing}": got float32' in caught.value.what
    assert not list((tmp_path / "out").iterdir())


class Constants(torch.nn.Module):
    """A weight that is used as it is, and a constant that was computed from it."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.lora = torch.nn.Parameter(torch.full((4, 4), value))
        self.copy = torch.full((4, 4), value)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, 4)."""
        return (x + self.lora).sin() @ self.copy.sin()


def test_a_constant_without_a_name_keeps_no_placeholder(tmp_path: Path) -> None:
    was, now = Constants(1.0), Constants(2.0)
    (tmp_path / "l").mkdir()
    source = portable(was, torch.zeros(4, 4), tmp_path / "l")
    tensor = adapter_values.add(
        tmp_path / "l" / "lowered",
        "lora",
        "float32",
        (4, 4),
        raw(was.lora.detach()),
        raw(now.lora.detach()),
    )
    values = Values((tensor,), (tensor.placeholder,))
    with pytest.raises(BuildError, match="placeholders of the adapter: got 1 constants that still"):
        link_with(source, tmp_path / "out", **BY_NAME, values=values)


@pytest.mark.parametrize("name", ["lora", "lora.scale"])
def test_a_quantized_copy_of_an_adapters_weight(name: str) -> None:
    tensor = adapter_values.AdapterTensor("lora", "float32", (4,), "1" * 64, "2" * 64, 16, 0)
    copy = NamedData(
        key="key",
        sha256="3" * 64,
        size=4,
        crc32=0,
        names=("base", name),
        dtype="qcint8",
        shape=(4,),
    )
    base = NamedData(key="base", sha256="4" * 64, size=4, crc32=0, names=("base",))
    values = Values((tensor,), ("1" * 64,))
    adapter_values.check_placeholders("//m:p", [], [base], values)
    message = f'the lowering made a copy of "{name}" in another form: got qcint8 \\[4\\], 4 bytes'
    with pytest.raises(BuildError, match=message):
        adapter_values.check_placeholders("//m:p", [], [base, copy], values)


def test_activation_scales_of_placeholders(tmp_path: Path) -> None:
    kind = XNNPackRecipeType.PT2E_INT8_STATIC_PER_CHANNEL
    source = lowered(Net(1), tmp_path / "l", "//m:p", kind)
    link_with(source, tmp_path / "own", **BY_NAME)
    message = "static quantization took its activation scales from the adapter's placeholders"
    with pytest.raises(BuildError, match=message):
        link_with(source, tmp_path / "out", **BY_NAME, values=Values())


# Payloads


def test_renaming_changes_keys_and_nothing_else(builds: Builds) -> None:
    (segment,) = (s for s in builds.base.index.segments if s.kind == "delegate")
    data = (builds.base.folder / "blobs" / segment.sha256).read_bytes()
    before = payload.read(data)
    assert payload.kinds(data)[0] >= {2}, "a fully connected layer"
    keys = {3: "a", 4: "a.very.long.name." * 20, 8: "näme"}
    renamed = payload.rename(data, keys)
    after = payload.read(renamed)
    for number, constant in enumerate(before.constants):
        assert after.constants[number].key == keys.get(number, constant.key)
        assert (after.constants[number].dtype, after.constants[number].shape) == (
            constant.dtype,
            constant.shape,
        )
    assert not any(before.constants[number].key.encode() in renamed for number in keys)
    assert len(after.packings) == len(before.packings)
    # A name may be given back, and bytes that differ in nothing but keys become the same.
    again = payload.read(payload.rename(renamed, {n: before.constants[n].key for n in keys}))
    assert again == before


@pytest.mark.parametrize("data", [b"", b"XH00", bytes(99), bytes(4) + b"XH00" + bytes(60)])
def test_what_is_no_payload_is_left_alone(data: bytes) -> None:
    result = payload.read(data)
    assert result is None or result.constants == ()


# The weight cache


class Doubled(torch.nn.Module):
    """Two layers; the second one's weight is the first one's, doubled: other scales, equal int8.

    Args:
      doubled: whether it is; otherwise it has values of its own.
    """

    def __init__(self, doubled: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = torch.nn.Linear(lora.WIDTH, lora.WIDTH, bias=False)
        self.b = torch.nn.Linear(lora.WIDTH, lora.WIDTH, bias=False)
        if doubled:
            with torch.no_grad():
                self.b.weight.copy_(self.a.weight * 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, WIDTH)."""
        return self.b(torch.relu(self.a(x)))


@pytest.mark.parametrize("doubled", [True, False])
def test_equal_integers_with_other_scales_make_the_cache_unsafe(
    tmp_path: Path, doubled: bool
) -> None:
    kind = XNNPackRecipeType.PT2E_INT8_DYNAMIC_PER_CHANNEL
    source = lowered(Doubled(doubled), tmp_path, "//m:doubled", kind)
    linked, _, _ = link_with(source, tmp_path / "out")
    keys = sorted({p.weight for p in source.index.packings})
    cache = only_program(linked).weight_cache
    if not doubled:
        assert (len(keys), cache.reasons, len(cache.packed)) == (2, (), 2)
        return
    (_,), (reason,) = keys, cache.reasons
    assert reason == (
        "a.weight and b.weight have equal bytes and are packed in 2 ways (different scales, types "
        "or shapes of the weight), and XNNPACK's weight cache would give all of them the first one"
    )


def test_a_float_program_has_a_safe_cache(builds: Builds) -> None:
    assert not only_program(builds.build("one", seed=1).linked).weight_cache.reasons
