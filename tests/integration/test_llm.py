"""The example of a language model, and a package with a tiny checkpoint beside it.

Two of the example's 30 layers are lowered, which takes seconds; they say nothing that makes sense,
but all else is as it stands. //models:llama_xnnpack_test asks the whole model.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from etcli.reproduce import checkout

sys.path.insert(0, os.path.dirname(__file__))
from nested import FOR_APPS, Workspace, environment

pytestmark = pytest.mark.release

_EXAMPLE = "examples/llm"
_FEW_LAYERS = ("    memory_mb = 8000,\n", "    layers = 2,\n")
_PROGRAM = "//story:story_xnnpack"


@pytest.fixture(scope="module")
def workspace(shared: Workspace) -> Workspace:
    shared.use("smollm2", "executorch_transformers")
    shared.lay(_EXAMPLE)
    shared.replace("BUILD.bazel", *_FEW_LAYERS)
    shutil.copytree(shared.module / "tests/e2e/llm", shared.folder / "story")
    return shared


@pytest.fixture
def checked_out(tmp_path: Path) -> Iterator[Workspace]:
    """The example in a fresh checkout."""
    top = tmp_path / "rules_executorch"
    new_workspace = Workspace(
        top / _EXAMPLE,
        source=lambda _, module: checkout.copy(module, top),
        repositories=[*FOR_APPS, "smollm2"],
    )
    # The page's command and the test share a server.
    (new_workspace.folder / ".bazelrc").write_text(new_workspace.settings)
    new_workspace.replace("BUILD.bazel", *_FEW_LAYERS)
    yield new_workspace
    new_workspace.close()


def test_first_contact(checked_out: Workspace, tmp_path: Path) -> None:
    """The first command of the example's page, with an empty home."""
    page = (checked_out.folder / "README.md").read_text()
    command = re.search(r"^```sh\n(.*?)^```", page, re.M | re.S)[1]
    assert command.startswith("bazel run //:smollm2_chat -- ")
    home = tmp_path / "home"
    home.mkdir()
    done = subprocess.run(
        ["bash", "-c", f"../../{command.replace('bazel', 'bazelw', 1)}"],
        cwd=checked_out.folder,
        env=environment(home),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    *_, last = done.stdout.splitlines()
    assert re.fullmatch(r"prefill: 37 tokens, .*; decode: \d+ tokens, .*", last)
    # Nothing stands between Bazel's last line and the answer.
    *_, printed = done.stderr.splitlines()
    assert printed.startswith("INFO: Running command line: bazel-bin/smollm2_chat")


def test_the_other_targets_of_the_example(workspace: Workspace) -> None:
    workspace.run("build", "--nobuild", "//:smollm2", "//:smollm2_app", "//:smollm2_answer_test")


def test_a_checkpoint_becomes_a_program(workspace: Workspace) -> None:
    """The program against the eager model; then a null build."""
    workspace.run("test", "//story:story_xnnpack_test")
    workspace.build(_PROGRAM, "//story:story_tokenizer")
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
            "quantization:\n  qmode: 8da4w-gptq\n\nbackend:\n",
            'story.yaml:9: quantization.qmode: got "8da4w-gptq", which is not supported',
        ),
    ],
)
def test_mistakes_name_the_line(workspace: Workspace, old: str, new: str, message: str) -> None:
    workspace.replace("story/story.yaml", old, new)
    try:
        assert message in workspace.failed(_PROGRAM)
    finally:
        workspace.replace("story/story.yaml", new, old)


def test_a_model_that_nobody_has_is_named(workspace: Workspace) -> None:
    build = workspace.folder / "story/BUILD.bazel"
    rule = build.read_text()
    command = "--output $(RULEDIR)/checkpoint"
    change = f"{command} && sed -i s/qwen2/nobodys/ $(RULEDIR)/checkpoint/config.json"
    workspace.replace("story/BUILD.bazel", command, change)
    try:
        printed = workspace.failed(_PROGRAM)
        assert 'config.json: model_type: got "nobodys", expected one of the' in printed
    finally:
        build.write_text(rule)
