"""A user's workspace with et_llm on a checkpoint of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import Workspace

_PROGRAM = "//:story_xnnpack"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    new_workspace = Workspace(tmp_path_factory.mktemp("llm") / "one", source="llm")
    yield new_workspace
    new_workspace.close()


def test_a_checkpoint_becomes_a_program_that_talks(workspace: Workspace) -> None:
    """The program against the eager model; then an answer; then a null build."""
    workspace.run("test", "//:story_xnnpack_test")
    printed = workspace.run("run", "//:story_chat", "--", "Hello", "--max_new_tokens", "3")
    assert "prefill: " in printed and "decode: " in printed
    assert workspace.build(_PROGRAM, "//:story_tokenizer") == []


def test_what_the_yaml_file_says_is_built(workspace: Workspace) -> None:
    workspace.build(_PROGRAM)
    workspace.replace("story.yaml", "max_context_length: 64", "max_context_length: 32")
    try:
        assert workspace.build(_PROGRAM)
        printed = workspace.failed("//:story_chat", "--", "word " * 20, command="run")
        assert "story_xnnpack.pte holds 32 (get_max_context_len)" in printed
    finally:
        workspace.replace("story.yaml", "max_context_length: 32", "max_context_length: 64")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("use_kv_cache", "use_kv_cach", "story.yaml:2: unknown key model.use_kv_cach."),
        (
            "xnnpack:\n    enabled: true",
            "vulkan:\n    enabled: true",
            "story.yaml:10: backend.vulkan.enabled: got true, expected false: //:story",
        ),
        (
            "backend:\n",
            "quantization:\n  qmode: int8\n\nbackend:\n",
            'story.yaml:9: quantization.qmode: got "int8", expected "8da4w"',
        ),
    ],
)
def test_mistakes_name_the_line(workspace: Workspace, old: str, new: str, message: str) -> None:
    workspace.replace("story.yaml", old, new)
    try:
        assert message in workspace.failed(_PROGRAM)
    finally:
        workspace.replace("story.yaml", new, old)


def test_a_family_that_is_not_supported_is_named(workspace: Workspace) -> None:
    rule = Path(workspace.folder / "BUILD.bazel").read_text()
    command = "--output $(RULEDIR)/checkpoint"
    change = f"{command} && sed -i s/qwen2/mixtral/ $(RULEDIR)/checkpoint/config.json"
    workspace.replace("BUILD.bazel", command, change)
    try:
        printed = workspace.failed(_PROGRAM)
        assert '"model_type": got "mixtral", which is not supported' in printed
        assert "missing is a mixture of experts" in printed
    finally:
        (workspace.folder / "BUILD.bazel").write_text(rule)
