"""What a Bazel from elsewhere needs from a registry: its own tools' dependencies."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from pathlib import Path

from bootstrap.candidates import Candidate
from bootstrap.console import BootstrapError, warn
from bootstrap.layout import Layout
from bootstrap.locks import make_directory, make_writable, write_file
from bootstrap.modulefile import Dependency, ModuleFile, parse_module_file
from bootstrap.versions import format_version

BAZEL_TOOLS = "embedded_tools/MODULE.bazel"

# For a Bazel that does not tell: what bazel_tools of Bazel 7 depends on.
_USUAL_DEPENDENCIES = (
    "apple_support",
    "buildozer",
    "platforms",
    "protobuf",
    "rules_cc",
    "rules_java",
    "rules_license",
    "rules_proto",
    "rules_python",
    "zlib",
)
_TIME_LIMIT_SECONDS = 120


def _install_base(candidate: Candidate) -> Path:
    """Asks a Bazel where its embedded files lie, in a workspace of no content.

    Raises:
        BootstrapError: it does not tell.
    """
    program = candidate.program
    environment = dict(os.environ)
    if candidate.version is not None:
        # Should it be Bazelisk: the workspace's version is meant, not the latest.
        environment["USE_BAZEL_VERSION"] = format_version(candidate.version)
    with tempfile.TemporaryDirectory(prefix="bazelw-") as scratch:
        workspace = Path(scratch) / "workspace"
        workspace.mkdir()
        (workspace / "MODULE.bazel").touch()
        command = [str(program), "--batch", "--nohome_rc", f"--output_base={scratch}/base"]
        result = subprocess.run(
            [*command, "info", "install_base"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIME_LIMIT_SECONDS,
            cwd=workspace,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        make_writable(Path(scratch))
    lines = result.stdout.strip().splitlines()
    if result.returncode or not lines or not Path(lines[-1]).is_absolute():
        reason = (result.stderr.strip().splitlines() or ["no output"])[-1]
        raise BootstrapError(f"{program} does not tell its install_base: {reason}")
    return Path(lines[-1])


def bazel_tools(candidate: Candidate, layout: Layout) -> ModuleFile:
    """The module file of the module bazel_tools that is built into a Bazel.

    Args:
        candidate: that Bazel.
        layout: where the answer is kept.
    """
    program = candidate.program
    status = program.stat()
    identity = f"{program.resolve()} {status.st_size} {status.st_mtime_ns} {candidate.version}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    known = make_directory(layout.facts) / f"{digest}.json"
    try:
        return parse_module_file(json.loads(known.read_text(encoding="utf-8"))["bazel_tools"])
    except (OSError, ValueError, KeyError):
        pass
    try:
        text = (_install_base(candidate) / BAZEL_TOOLS).read_text(encoding="utf-8")
    except (BootstrapError, OSError, subprocess.TimeoutExpired) as error:
        warn(f"{error}; taking the modules that Bazel 7 needs")
        return ModuleFile(dependencies=[Dependency(name) for name in _USUAL_DEPENDENCIES])
    write_file(known, json.dumps({"program": str(program), "bazel_tools": text}, indent=1))
    return parse_module_file(text)
