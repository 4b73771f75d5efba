"""`et pin`: the tag that pins a model of the Hugging Face hub by commit and hash.

The tag is printed when all of it is known, or not at all. It depends on the commit and on the
selected files only, so that pinning again shows no change where there is none.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from etbuild.errors import BuildError
from httpx2 import HTTPError
from huggingface_hub import HfApi, errors
from huggingface_hub.hf_api import ModelInfo, RepoSibling
from huggingface_hub.utils import disable_progress_bars, validate_repo_id
from huggingface_hub.utils.sha import git_hash

from etcli.command import Outcome
from etcli.console import Printer, bar
from etcli.hub import licenses

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
    # The library reads the variable when it is imported.
    api = HfApi(endpoint=os.environ.get("HF_ENDPOINT"))
    try:
        result = pin(api, options)
    except (HTTPError, OSError, TypeError, ValueError, KeyError) as error:
        raise _explained(error, api, options) from error
    notes = []
    if not result["license"]:
        notes.append(
            f"{result['repo']}: the hub does not say which license it has. Set license to an SPDX "
            f"expression, for the bill of materials of releases."
        )
    return Outcome(result, lambda out: show(result, out), problems=notes)


def pin(api: HfApi, options: argparse.Namespace) -> dict[str, Any]:
    """A tag as a dict.

    Args:
      api: of the hub that has the model.
      options: repo, revision, include (patterns), name.

    Returns:
      "name", "repo", "revision", "license", and "files": path to sha256, sorted.

    Raises:
      BuildError: no file is selected, or one that the rule does not take.
    """
    model = api.model_info(options.repo, revision=options.revision, files_metadata=True)
    validate_repo_id(model.id)
    selected = _selected(model.siblings or [], options.include, model.id)
    disable_progress_bars()
    with (
        tempfile.TemporaryDirectory() as folder,
        bar(f"Pinning {model.id}", len(selected), unit="files") as advance,
    ):
        sha256_by_path = {}
        for file in selected:
            sha256_by_path[file.rfilename] = _sha256(api, model, file, folder)
            advance(1)
    card = model.card_data
    return {
        "name": options.name or _repository_name(model.id),
        "repo": model.id,
        "revision": _hex(model.sha, 40),
        "license": licenses.spdx(
            sorted(tag[8:] for tag in model.tags or [] if tag.startswith("license:")),
            str(card.get("license_name") or "") if card else "",
        ),
        "files": sha256_by_path,
    }


def _sha256(api: HfApi, model: ModelInfo, file: RepoSibling, folder: str) -> str:
    """The hash of a file, which is downloaded if the hub does not say it."""
    if file.lfs:
        return _hex(file.lfs.sha256, 64)
    path = api.hf_hub_download(model.id, file.rfilename, revision=model.sha, cache_dir=folder)
    data = Path(path).read_bytes()
    if git_hash(data) != file.blob_id:
        raise ValueError(
            f"{file.rfilename}: expected git hash {file.blob_id}, got {git_hash(data)}"
        )
    return hashlib.sha256(data).hexdigest()


def _hex(value: object, length: int) -> str:
    """A hash that goes into a file of Starlark."""
    if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{length}}}", value):
        raise ValueError(f"expected {length} hex digits, got {value!r:.80}")
    return value


def _explained(error: Exception, api: HfApi, options: argparse.Namespace) -> BuildError:
    """The sentence for an error of the hub's library."""
    where = f"{options.repo} at {options.revision}"
    page = f"{api.endpoint}/{options.repo}"
    if isinstance(error, errors.HFValidationError):
        return BuildError(
            f'"{options.repo}": got no name of a model, expected "organization/model".',
            "Copy it from the model's page.",
        )
    if isinstance(error, errors.GatedRepoError):
        return BuildError(
            f"{where}: the model is gated.",
            f"Accept the license at {page}, and set HF_TOKEN to a token of that account.",
        )
    if isinstance(error, errors.RepositoryNotFoundError):
        return BuildError(
            f"{where}: the model does not exist or is private.",
            "Correct its name. If it is private, set HF_TOKEN.",
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return BuildError(
            f"{where}: the revision does not exist.",
            f"Take a branch, tag or commit of {page}/tree/main.",
        )
    reason = " ".join(str(error).split()).rstrip(".")
    return BuildError(
        f"{where}: got no usable answer from {api.endpoint}: {reason}.",
        "Check the network, HF_ENDPOINT and HF_TOKEN, and try again later.",
    )


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


def _selected(files: Sequence[RepoSibling], include: Sequence[str], repo: str) -> list[RepoSibling]:
    """The files to pin, by path."""
    files = sorted(files, key=lambda file: file.rfilename)
    if include:
        selected = [f for f in files if any(fnmatch.fnmatchcase(f.rfilename, i) for i in include)]
    else:
        selected = _default(files)
    if not selected:
        patterns = " ".join(include) or "weights"
        raise BuildError(
            f"{repo}: no file is selected: got {len(files)} files, expected some of {patterns}.",
            "Select files of the model's page with --include.",
        )
    for file in selected:
        parts = file.rfilename.split("/")
        if (
            not _PATH.fullmatch(file.rfilename)
            or any(part in ("", ".", "..") for part in parts)
            or parts[-1].lower() in _RESERVED
        ):
            raise BuildError(
                f"{repo}: got the file {file.rfilename!r}, expected a path that a repository can "
                "have.",
                "Leave it out: select the others with --include.",
            )
    return selected


def _default(files: Sequence[RepoSibling]) -> list[RepoSibling]:
    """Weights with what belongs to them, without folders, which hold them in other forms."""
    top = [f for f in files if "/" not in f.rfilename and not _matches(f, _REPEATED)]
    for pattern in _WEIGHTS:
        if any(_matches(file, (pattern,)) for file in top):
            return [file for file in top if _matches(file, (pattern, *_OTHERS))]
    return []


def _matches(file: RepoSibling, patterns: Sequence[str]) -> bool:
    return any(fnmatch.fnmatchcase(file.rfilename, pattern) for pattern in patterns)


def _repository_name(repo: str) -> str:
    """Name of a repository for a model: "org/Model-1B" is "model_1b"."""
    return re.sub(r"[^a-z0-9]+", "_", repo.rpartition("/")[2].lower()).strip("_")
