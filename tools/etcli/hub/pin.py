"""`et pin`: the tag that pins a model of the Hugging Face hub by commit and hash.

The tag is printed when all of it is known, or not at all. It depends on the commit and on the
selected files only, so that pinning again shows no change where there is none.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
from collections.abc import Sequence
from typing import Any

from etbuild.errors import BuildError
from ethub import licenses
from ethub.client import Hub, HubError, HubFile

from etcli.command import Outcome
from etcli.console import Printer, bar

# What a model is built from: the first kind of weights that it has, and what belongs to them.
_WEIGHTS = ("*.safetensors", "*.bin", "*.pth", "*.gguf")
_OTHERS = ("*.json", "*.jinja", "*.model", "*.spm", "*.txt", "LICENSE*", "NOTICE*")

# All weights once more, in one file, as some models have them.
_REPEATED = ("consolidated*", "training_args.bin")

# What the repository rule takes: characters that need no quoting in labels and addresses.
_PATH = re.compile(r"[A-Za-z0-9_.~+=@,()!$&'/-]+")
_RESERVED = frozenset(
    ("build", "build.bazel", "module.bazel", "repo.bazel", "workspace", "workspace.bazel")
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("repo", metavar="MODEL", help="name on the hub: organization/model")
    parser.add_argument(
        "--revision", default="main", help="branch, tag or commit to pin (%(default)s)"
    )
    parser.add_argument("--name", default="", help="of the repository; default: from the model's")
    parser.add_argument(
        "--include",
        action="append",
        default=[],
        metavar="PATTERN",
        help="files to pin, * also matches slashes; default: weights, configuration, tokenizer",
    )


def command(options: argparse.Namespace) -> Outcome:
    """Asks the hub for a model's commit, files, hashes and license."""
    try:
        result = pin(Hub.of_environment(os.environ), options)
    except HubError as error:
        raise BuildError(error.what, error.hint) from error
    notes = []
    if not result["license"]:
        notes.append(
            f"{result['repo']}: the hub does not say which license it has. Set license to an SPDX "
            f"expression, for the bill of materials of releases."
        )
    return Outcome(result, lambda out: show(result, out), problems=notes)


def pin(hub: Hub, options: argparse.Namespace) -> dict[str, Any]:
    """A tag as a dict.

    Args:
      hub: that has the model.
      options: repo, revision, include (patterns), name.

    Returns:
      "name", "repo", "revision", "license", and "files": path to sha256, sorted.

    Raises:
      HubError: the hub's answers are of no use.
      BuildError: no file is selected, or one that the rule does not take.
    """
    model = hub.model(options.repo, options.revision)
    files = _selected(hub.files(model.repo, model.commit), options.include, model.repo)
    with bar(f"Pinning {model.repo}", len(files), unit="files") as advance:
        sha256_by_path = {}
        for file in files:
            sha256_by_path[file.path] = hub.sha256(model.repo, model.commit, file)
            advance(1)
    return {
        "name": options.name or _repository_name(model.repo),
        "repo": model.repo,
        "revision": model.commit,
        "license": licenses.spdx(model.licenses, model.license_name),
        "files": sha256_by_path,
    }


def show(result: dict[str, Any], out: Printer) -> None:
    """Prints the tag."""
    files = "".join(f'        "{path}": "{h}",\n' for path, h in result["files"].items())
    out.verbatim(
        "executorch.hugging_face(\n"
        f'    name = "{result["name"]}",\n'
        f"    files = {{\n{files}    }},\n"
        f'    license = "{result["license"]}",\n'
        f'    repo = "{result["repo"]}",\n'
        f'    revision = "{result["revision"]}",\n'
        ")\n"
        f'use_repo(executorch, "{result["name"]}")\n'
    )


def _selected(files: Sequence[HubFile], include: Sequence[str], repo: str) -> list[HubFile]:
    """The files to pin."""
    if include:
        selected = [f for f in files if any(fnmatch.fnmatchcase(f.path, i) for i in include)]
    else:
        selected = _default(files)
    if not selected:
        patterns = " ".join(include) or "weights"
        raise BuildError(
            f"{repo}: no file is selected: got {len(files)} files, expected some of {patterns}.",
            "Select files of the model's page with --include.",
        )
    for file in selected:
        parts = file.path.split("/")
        if (
            not _PATH.fullmatch(file.path)
            or any(part in ("", ".", "..") for part in parts)
            or parts[-1].lower() in _RESERVED
        ):
            raise BuildError(
                f"{repo}: got the file {file.path!r}, expected a path that a repository can have.",
                "Leave it out: select the others with --include.",
            )
    return selected


def _default(files: Sequence[HubFile]) -> list[HubFile]:
    """Weights with what belongs to them, without folders, which hold them in other forms."""
    top = [f for f in files if "/" not in f.path and not _matches(f, _REPEATED)]
    for pattern in _WEIGHTS:
        if any(_matches(file, (pattern,)) for file in top):
            return [file for file in top if _matches(file, (pattern, *_OTHERS))]
    return []


def _matches(file: HubFile, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(file.path, pattern) for pattern in patterns)


def _repository_name(repo: str) -> str:
    """Name of a repository for a model: "org/Model-1B" is "model_1b"."""
    return re.sub(r"[^a-z0-9]+", "_", repo.rpartition("/")[2].lower()).strip("_")
