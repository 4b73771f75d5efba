"""Fuzzes the readers of files, guided by coverage.

    bazel run //tests/fuzz:readers -- --seconds 600              # all kinds of files
    bazel run //tests/fuzz:readers -- --seconds 600 --kind gguf  # one of them, or several
    bazel run //tests/fuzz:readers -- /tmp/fuzz/gguf-crash-1f3c  # once, with a stack trace

A file that is neither read nor refused with a sentence stays in a folder that is named at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import traceback
import types
from collections.abc import Sequence
from pathlib import Path

# Not resolved: under Bazel the files are links, and their neighbors lie beside the links.
_REPOSITORY = Path(__file__).absolute().parents[2]
sys.path.insert(0, str(_REPOSITORY))

from tests.fuzz import kinds, mutation  # noqa: E402  (needs the path set above)

_CORPUS = _REPOSITORY / "tests/fuzz/corpus"
# What of it is watched.
_OURS = [
    "etbuild",
    "etbundle",
    "etcli",
    "etllm",
    "etlower",
    "etlink",
    "etllm.tokenizer",
]
_SECONDS_PER_FILE = 20
_MOST_MB = 3000
_MOST_BYTES = 1 << 16
_DONE = re.compile(
    r"^stat::number_of_executed_units: *(\d+)|^#\d+\s+(?:DONE|NEW|REDUCE).* cov: (\d+)"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="readers", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=int, default=60, help="for all kinds together")
    parser.add_argument("--runs", type=int, help="files of each kind, instead of a time")
    parser.add_argument("--kind", action="append", choices=kinds.KINDS, help="only this one")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers")
    parser.add_argument("--corpus", type=Path, default=_CORPUS, help=argparse.SUPPRESS)
    parser.add_argument("--child", choices=kinds.KINDS, help=argparse.SUPPRESS)
    parser.add_argument("--found", type=Path, help="folder for crashes; default: a new one")
    parser.add_argument("files", nargs="*", type=Path, help="read these, once each")
    options = parser.parse_args(arguments)
    # Bazel starts programs in a folder of its own.
    folder = Path(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    if options.files:
        chosen = options.kind[0] if options.kind else ""
        return _again([folder / file for file in options.files], chosen, options.corpus)
    if options.child:
        limit = f"-max_total_time={options.seconds}"
        if options.runs is not None:
            limit = f"-runs={options.runs}"
        _fuzz(options.child, limit, options.seed, options.corpus, options.found)
    outputs = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
    found = options.found or (Path(outputs) if outputs else Path(tempfile.mkdtemp(prefix="fuzz-")))
    return _all(options.kind or list(kinds.KINDS), options, found)


def _all(chosen: Sequence[str], options: argparse.Namespace, found: Path) -> int:
    found.mkdir(parents=True, exist_ok=True)
    failed = []
    for kind in chosen:
        command = [sys.executable, __file__, f"--child={kind}", f"--found={found}"]
        command += [f"--seconds={max(options.seconds // len(chosen), 2)}"]
        command += [f"--runs={options.runs}"] if options.runs is not None else []
        command += [f"--seed={options.seed}", f"--corpus={options.corpus}"]
        # The path on which this process finds its packages, which Bazel's launcher created. With
        # the same seed, sets have the same order, and so the mutated files are the same ones.
        path = os.pathsep.join(sys.path)
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            command,
            check=False,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        print(f"{kind}: {_figures(done.stdout)}", flush=True)
        if done.returncode:
            failed.append(kind)
            print("\n".join(done.stdout.splitlines()[-40:]), flush=True)
    for kind in failed:
        files = sorted(str(p) for p in found.glob(f"{kind}-*"))
        print(f"FAILED: {kind}: {', '.join(files) or 'it could not be fuzzed'}", file=sys.stderr)
    if failed:
        print("To see it again: bazel run //tests/fuzz:readers -- FILE", file=sys.stderr)
    return 1 if failed else 0


def _figures(said: str) -> str:
    runs = covered = ""
    for line in said.splitlines():
        match = _DONE.match(line)
        if match:
            runs, covered = match[1] or runs, match[2] or covered
    return f"{runs or '?'} files, {covered or '?'} branches"


def _again(files: Sequence[Path], chosen: str, corpus: Path) -> int:
    """Reads files once."""
    code = 0
    for file in files:
        name = chosen or file.name.partition("-")[0]
        if name not in kinds.KINDS:
            print(f"{file}: which kind is it? Give --kind.", file=sys.stderr)
            return 2
        with tempfile.TemporaryDirectory() as scratch:
            kind, folders = kinds.KINDS[name], _folders(name, corpus, Path(scratch))
            path = Path(scratch) / f"input{kind.suffix}"
            path.write_bytes(file.read_bytes())
            try:
                kinds.check(kind, path, folders)
                print(f"{file}: read, or refused with a sentence")
            except Exception:
                traceback.print_exc()
                code = 1
    return code


def _folders(kind: str, corpus: Path, scratch: Path) -> kinds.Folders:
    return kinds.Folders(corpus / kind, scratch / "scratch")


def _fuzz(name: str, limit: str, seed: int, corpus: Path, found: Path) -> None:
    """Fuzzes one kind in this process, which libFuzzer ends."""
    import atheris

    kind = kinds.KINDS[name]
    if not kind.torch:
        _without_torch()
    scratch = Path(tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR")))
    folders = _folders(name, corpus, scratch)
    path = scratch / f"input{kind.suffix}"
    with atheris.instrument_imports(include=_OURS):
        # Reading whole files imports all that the kind needs; they must not be refused.
        for file in sorted((corpus / name / "seeds").iterdir()):
            path.write_bytes(file.read_bytes())
            folders.prepare()
            kind.read(path, folders)

    def read(data: bytes) -> None:
        path.write_bytes(data)
        kinds.check(kind, path, folders)

    kept = scratch / "corpus"
    kept.mkdir()
    words = [sys.argv[0], str(kept), str(corpus / name / "seeds")]
    words += [limit, f"-seed={seed}", f"-artifact_prefix={found}/{name}-"]
    words += [f"-timeout={_SECONDS_PER_FILE}", f"-rss_limit_mb={_MOST_MB}"]
    words += [f"-max_len={_MOST_BYTES}", "-print_final_stats=1", "-reload=0"]
    # Looked up when it is called: atheris puts another function there as it begins.
    mutator = mutation.mutator(kind.suffix, lambda data, most: atheris.Mutate(data, most))
    atheris.Setup(words, read, custom_mutator=mutator)
    atheris.Fuzz()


def _without_torch() -> None:
    """Imports executorch's generated classes without their packages."""
    spec = importlib.util.find_spec("executorch")
    roots = list(spec.submodule_search_locations or []) if spec else []
    for name in ("executorch", "executorch.exir", "executorch.exir._serialize"):
        module = types.ModuleType(name)
        inner = name.split(".")[1:]
        module.__path__ = [str(Path(root, *inner)) for root in roots]
        sys.modules[name] = module


if __name__ == "__main__":
    sys.exit(main())
