"""Stand-ins for what Bazel's own tools name and Debian lacks: empty modules, coverage tools."""

from __future__ import annotations

from pathlib import Path

from bootstrap.locks import write_file

_MODULE = '"""Empty: {name} is not packaged here."""\n\nmodule(name = "{name}")\n'

# bazel_tools uses this extension, and `bazel mod` evaluates it.
_BUILDOZER = '''"""Stands in for buildozer, which only `bazel mod tidy` starts."""

_SCRIPT = """#!/bin/sh
echo "buildozer is not packaged here, so 'bazel mod tidy' does not work" >&2
exit 1
"""

def _repository(ctx):
    ctx.file("BUILD.bazel", "")
    ctx.file("buildozer.exe", _SCRIPT, executable = True)

_buildozer_repository = repository_rule(implementation = _repository)

def _extension(_ctx):
    _buildozer_repository(name = "buildozer_binary")

buildozer_binary = module_extension(implementation = _extension)
'''

COVERAGE_TOOLS = "remote_coverage_tools"

# Bazel downloads a Java program for this. LCOV records may follow each other in a file, so putting
# the tests' records together is enough; gcov's data, which it would convert, is left out.
_COVERAGE_SCRIPT = """#!/bin/sh
set -eu
for argument in "$@"; do
  case $argument in
    --coverage_dir=*) directory=${argument#*=} ;;
    --reports_file=*) reports=${argument#*=} ;;
    --output_file=*) output=${argument#*=} ;;
  esac
done
if [ -n "${reports:-}" ]; then
  while IFS= read -r report; do [ ! -s "$report" ] || cat "$report"; done <"$reports" >"$output"
else
  find "$directory/" -name '*.dat' -type f -exec cat {} + >"$output"
fi
"""

_COVERAGE_RULE = '''"""A program that is a source file."""

def _program(ctx):
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = program, target_file = ctx.file.src, is_executable = True)
    return [DefaultInfo(executable = program)]

program = rule(
    implementation = _program,
    attrs = {"src": attr.label(allow_single_file = True)},
    executable = True,
)
'''

_COVERAGE_PACKAGE = """load("//:program.bzl", "program")

[
    program(name = name, src = "merge.sh", visibility = ["//visibility:public"])
    for name in ("lcov_merger", "coverage_report_generator")
]
"""


def stub_files(name: str) -> dict[str, str]:
    """The files of an empty module, by name."""
    files = {"BUILD.bazel": "", "MODULE.bazel": _MODULE.format(name=name)}
    if name == "buildozer":
        files["buildozer_binary.bzl"] = _BUILDOZER
    if name == COVERAGE_TOOLS:
        files["BUILD.bazel"] = _COVERAGE_PACKAGE
        files["program.bzl"] = _COVERAGE_RULE
        files["merge.sh"] = _COVERAGE_SCRIPT
    return files


def provide_stub(directory: Path, name: str) -> Path:
    """Writes an empty module below a directory, unless it is there as it should be."""
    for file, content in stub_files(name).items():
        path = directory / name / file
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            write_file(path, content, executable=content.startswith("#!"))
    return directory / name
