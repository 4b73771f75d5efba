"""Readers of each kind of file: they read it, or say in a sentence what is wrong."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LABEL = "//fuzz:target"
_A_LABEL = re.compile(r"(^|[ (])//[\w/]*:\w+")


@dataclass(frozen=True)
class Folders:
    """Folders of a kind's files.

    Attributes:
      seeds: folder of the corpus with this kind's whole files, and files that belong to them.
      scratch: a folder for what is written, emptied before each file.
    """

    seeds: Path
    scratch: Path

    def prepare(self) -> None:
        """Empties the scratch folder."""
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(parents=True)


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
      suffix: of the file's name.
      read: reads the file at a path; raises what `check` lets pass.
      torch: whether that needs torch, which takes seconds to import.
    """

    suffix: str
    read: Callable[[Path, Folders], None]
    torch: bool = False


def check(kind: Kind, path: Path, folders: Folders) -> None:
    """Reads a file.

    Raises:
      Exception: it was neither read nor refused with a sentence that names it.
    """
    from etbuild import BuildError

    folders.prepare()
    try:
        kind.read(path, folders)
    except BuildError as error:
        assert "\n" not in error.what, f"more than a sentence: {error.what!r}"
        assert error.what.endswith("."), f"no sentence: {error.what!r}"
        named = (path.name, path.stem, str(folders.scratch), str(folders.seeds))
        names = any(name in error.what for name in named) or _A_LABEL.search(error.what)
        assert names, f"names neither file nor target: {error.what!r}"


def _bundle(path: Path, folders: Folders) -> None:
    from etcli.files.inspection import inspect

    inspect(path)


def _program(path: Path, folders: Folders) -> None:
    from etbundle.needs import uses_of
    from etcli.files.inspection import inspect
    from etlink import payload
    from etlink.container import chunks
    from etlink.link import link
    from etlink.lowered import Lowered
    from etlink.pte import read
    from etlink.split import split

    uses_of(LABEL, path)
    inspect(path)
    lowered, out = folders.scratch / "lowered", folders.scratch / "out.pte"
    split(path, lowered, LABEL, {"executorch": "1", "python": "3", "torch": "2"})
    link(Lowered(lowered), out)
    assert out.read_bytes() == path.read_bytes(), "another program came out"
    link(Lowered(lowered), folders.scratch / "separate.pte", folders.scratch / "separate.ptd")
    file = read(path)
    for number in range(len(file.segments)):
        payload.read(b"".join(chunks(file.piece(number))))


def _data(path: Path, folders: Folders) -> None:
    from etlink import ptd, share

    out = folders.scratch / "out.ptd"
    file = share.adopt(path, None, out, LABEL)
    assert out.read_bytes() == path.read_bytes()
    assert file.by_key().keys() == ptd.read(path).keys()


def _payload(path: Path, folders: Folders) -> None:
    from etlink import payload

    data = path.read_bytes()
    parsed = payload.read(data)
    keys = {n: f"name.{n}" for n, c in enumerate(parsed.constants if parsed else ()) if c.key}
    if not keys:
        return
    again = payload.read(payload.rename(data, keys))
    # Keys that lie in the midst of tables make nonsense of them.
    assert again is None or len(again.constants) == len(parsed.constants)


def _index(path: Path, folders: Folders) -> None:
    from etlink.link import link
    from etlink.lowered import Lowered

    lowered = folders.scratch / "lowered"
    shutil.copytree(folders.seeds / "lowered", lowered, ignore=shutil.ignore_patterns("index.json"))
    shutil.copyfile(path, lowered / "index.json")
    link(Lowered(lowered), folders.scratch / "out.pte")
    link(Lowered(lowered), folders.scratch / "separate.pte", folders.scratch / "separate.ptd")


def _shared_data(path: Path, folders: Folders) -> None:
    from etlink.data_file import check_file
    from etlink.link import Options, link
    from etlink.lowered import Lowered
    from etlink.share import only_data_file

    name, file = only_data_file(path)
    check_file(folders.seeds / "shared.ptd", file)
    options = Options(label=LABEL, shared=((name, file),), allow_unshared=True)
    link(Lowered(folders.seeds / "lowered"), folders.scratch / "out.pte", None, options)


def _manifest(path: Path, folders: Folders) -> None:
    from etlink import manifest

    manifest.read(path)


def _facts(path: Path, folders: Folders) -> None:
    from etcli.report import program as report
    from etlink import delegated

    lowered = folders.scratch / "lowered"
    shutil.copytree(
        folders.seeds / "lowered", lowered, ignore=shutil.ignore_patterns("lowering.json")
    )
    shutil.copyfile(path, lowered / "lowering.json")
    words = [f"--label={LABEL}", f"--lowered={lowered}"]
    words += [f"--{name}={folders.seeds / name}.json" for name in ("timings", "summary")]
    words += [f"--{name}={folders.scratch / name}" for name in ("json", "html")]
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = report.main(words)
    assert bool(code) == said.getvalue().startswith("ERROR: "), said.getvalue()
    delegated.read(lowered)


def _gguf(path: Path, folders: Folders) -> None:
    from etllm import gguf_checkpoint
    from etllm.gguf_file import GgufFile
    from etllm.hf_config import Sizes
    from etllm.tokenizer.tokenizer_from_gguf import build_config, build_tokenizer, read_metadata

    file = GgufFile(path)
    for name in file.names():
        shape = tuple(int(n) for n in reversed(file._tensors[name].shape))
        file.tensor(name, shape)
    metadata = read_metadata(path)
    build_tokenizer(metadata, path.name)
    build_config(metadata, path.name)
    gguf_checkpoint.opened(path, Sizes(context=8, most=8), LABEL)


def _calibration(path: Path, folders: Folders) -> None:
    import torch
    from etbuild import Method, load_checkpoint
    from etlower import calibration

    method = Method(torch.nn.Identity(), (torch.zeros(2, 3), torch.zeros(1, dtype=torch.int64)))
    calibration.read(path, {"forward": method}, LABEL)
    load_checkpoint(path)


def _checkpoint(path: Path, folders: Folders) -> None:
    import sys

    from etbuild import load_checkpoint

    try:
        load_checkpoint(path)
    finally:
        assert not hasattr(sys, "ran_from_a_file"), "something in the file ran"


def _tokenizer(path: Path, folders: Folders) -> None:
    from etllm.tokenizer.text import load_tokenizer

    load_tokenizer(path)


def _chat_config(path: Path, folders: Folders) -> None:
    from etllm.tokenizer.chat_format import write_chat_format
    from etllm.tokenizer.text import load_config

    write_chat_format(load_config(path), path.name, folders.scratch / "chat_format.json")


def _adapter_config(path: Path, folders: Folders) -> None:
    from etllm.lora_config import Config

    Config.read(path).takes("model.layers.0.self_attn.q_proj")


def _language_model(name: str) -> Callable[[Path, Folders], None]:
    """Reads a checkpoint as et_llm does, with this file instead of the one of that name."""

    def read(path: Path, folders: Folders) -> None:
        from etbuild import ModelContext
        from etllm import entry

        # Messages call files of a target as its label does: with their folder.
        files = {f"{path.stem}/{file.name}": file for file in (folders.seeds / "beside").iterdir()}
        files[f"{path.stem}/{name}"] = path
        entry.build(ModelContext({"backends": "xnnpack"}, files, LABEL))

    return read


def _llm_yaml(path: Path, folders: Folders) -> None:
    import importlib

    from etllm.settings import Settings

    settings = Settings.read(path, path.name)
    for backend in settings.enabled_backends():
        if backend in ("coreml", "vulkan", "xnnpack"):
            importlib.import_module(f"{backend}_llm").choose(settings)
    _language_model("llm.yaml")(path, folders)


KINDS = {
    "adapter_config": Kind(".json", _adapter_config),
    "bundle": Kind(".bpte", _bundle),
    "calibration": Kind(".safetensors", _calibration, torch=True),
    "chat_config": Kind(".json", _chat_config, torch=True),
    "checkpoint": Kind(".pt", _checkpoint, torch=True),
    "data": Kind(".ptd", _data),
    "facts": Kind(".json", _facts),
    "gguf": Kind(".gguf", _gguf, torch=True),
    "hf_config": Kind(".json", _language_model("config.json"), torch=True),
    "hf_generation": Kind(".json", _language_model("generation_config.json"), torch=True),
    "hf_index": Kind(".json", _language_model("model.safetensors.index.json"), torch=True),
    "hf_weights": Kind(".safetensors", _language_model("model.safetensors"), torch=True),
    "index": Kind(".json", _index),
    "llm_yaml": Kind(".yaml", _llm_yaml, torch=True),
    "manifest": Kind(".json", _manifest),
    "meta_params": Kind(".json", _language_model("params.json"), torch=True),
    "payload": Kind(".bin", _payload),
    "program": Kind(".pte", _program),
    "shared_data": Kind(".json", _shared_data),
    "tokenizer": Kind(".json", _tokenizer, torch=True),
}
