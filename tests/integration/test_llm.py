"""The example of a language model, and in its workspace a package with a tiny checkpoint.

The example's model is lowered with 2 of its 30 layers: they say nothing that makes sense, but all
else is as it stands. //models:llama_xnnpack_test asks the whole model.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from nested import FOR_APPS, Workspace

_PROGRAM = "//story:story_xnnpack"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    new_workspace = Workspace(
        tmp_path_factory.mktemp("llm") / "one",
        source="examples/llm",
        repositories=[*FOR_APPS, "smollm2"],
    )
    new_workspace.replace("BUILD.bazel", "    memory_mb = 8000,\n", "    layers = 2,\n")
    shutil.copytree(new_workspace.module / "tests/e2e/llm", new_workspace.folder / "story")
    yield new_workspace
    new_workspace.close()


def test_the_example_talks(workspace: Workspace) -> None:
    """Its chat as its page has it; all of its targets can be analyzed."""
    workspace.run("build", "--nobuild", "//:all")
    question = "What is the capital of France?"
    printed = workspace.run("run", "//:smollm2_chat", "--", question, "--max_new_tokens", "3")
    assert "prefill: " in printed and "decode: " in printed


def test_a_checkpoint_becomes_a_program(workspace: Workspace) -> None:
    """The program against the eager model; then a null build."""
    workspace.run("test", "//story:story_xnnpack_test")
    assert workspace.build(_PROGRAM, "//story:story_tokenizer") == []


def test_what_the_yaml_file_says_is_built(workspace: Workspace) -> None:
    workspace.build(_PROGRAM)
    workspace.replace("story/story.yaml", "max_context_length: 64", "max_context_length: 32")
    try:
        assert workspace.build(_PROGRAM)
        printed = workspace.failed("//story:story_chat", "--", "word " * 20, command="run")
        assert "story_xnnpack.pte holds 32 (get_max_context_len)" in printed
    finally:
        workspace.replace("story/story.yaml", "max_context_length: 32", "max_context_length: 64")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("use_kv_cache", "use_kv_cach", "story.yaml:2: unknown key model.use_kv_cach."),
        (
            "xnnpack:\n    enabled: true",
            "vulkan:\n    enabled: true",
            "story.yaml:10: backend.vulkan.enabled: got true, expected false: //story:story",
        ),
        (
            "backend:\n",
            "quantization:\n  qmode: int8\n\nbackend:\n",
            'story.yaml:9: quantization.qmode: got "int8", expected "8da4w"',
        ),
    ],
)
def test_mistakes_name_the_line(workspace: Workspace, old: str, new: str, message: str) -> None:
    workspace.replace("story/story.yaml", old, new)
    try:
        assert message in workspace.failed(_PROGRAM)
    finally:
        workspace.replace("story/story.yaml", new, old)


def test_a_family_that_is_not_supported_is_named(workspace: Workspace) -> None:
    build = workspace.folder / "story/BUILD.bazel"
    rule = build.read_text()
    command = "--output $(RULEDIR)/checkpoint"
    change = f"{command} && sed -i s/qwen2/mixtral/ $(RULEDIR)/checkpoint/config.json"
    workspace.replace("story/BUILD.bazel", command, change)
    try:
        printed = workspace.failed(_PROGRAM)
        assert '"model_type": got "mixtral", which is not supported' in printed
        assert "missing is a mixture of experts" in printed
    finally:
        build.write_text(rule)
