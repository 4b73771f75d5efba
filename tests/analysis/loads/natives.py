"""Rules and providers that a file uses without a load, and that Bazel 9 no longer has itself.

Python's parser reads Starlark. A text in a .bzl file that has loads or rules at the beginning of
lines is a BUILD file of a repository rule, and is read the same way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# What languages other than Starlark brought.
_RULE = re.compile(
    r"(?:android|apple|cc|j2objc|java|objc|proto|py|sh)_(?:aar_import|binary|common|device|import|"
    r"lang_toolchain|library|local_test|ndk_repository|package_configuration|plugin|plugins_flag_alias|"
    r"proto_library|runtime|runtime_pair|sdk_repository|shared_library|static_library|test|toolchain|"
    r"toolchain_alias|toolchain_suite|tools_defaults_jar)"
)
_PROVIDERS = frozenset(
    {
        "CcInfo",
        "CcSharedLibraryHintInfo",
        "CcSharedLibraryInfo",
        "CcToolchainConfigInfo",
        "DebugPackageInfo",
        "JavaInfo",
        "JavaPluginInfo",
        "ObjcInfo",
        "ProtoInfo",
        "PyCcLinkParamsInfo",
        "PyInfo",
        "PyRuntimeInfo",
    }
)
_BUILD_TEXT = re.compile(r"^(?:load|[a-z]\w*)\(", re.MULTILINE)
# Substitutions of repository rules: "%s", "%%s", "{name}" as a word, "%{name}".
_SUBSTITUTION = re.compile(r"%{\w+}|%%?s")


def unloaded(text: str) -> list[str]:
    """Names that a .bzl or BUILD file uses as if Bazel had them, sorted.

    Args:
      text: of the file.

    Raises:
      SyntaxError: it is no Starlark.
    """
    tree = ast.parse(_SUBSTITUTION.sub("_", text))
    names = _used_without(set(_bound(tree)), tree)
    # Such texts are put together from several, so that a load may be in another one.
    texts = list(_build_texts(tree))
    loaded = {name for inner in texts for name in _loaded_in_lines(inner)}
    for inner in texts:
        try:
            names |= _used_without(loaded, ast.parse(_SUBSTITUTION.sub("_", inner)))
        except SyntaxError:
            called = re.findall(r"^(\w+)\(", inner, re.MULTILINE)
            names |= {name for name in called if _gone(name) and name not in loaded}
    return sorted(names)


def _gone(name: str) -> bool:
    return name in _PROVIDERS or bool(_RULE.fullmatch(name))


def _used_without(bound: set[str], tree: ast.AST) -> set[str]:
    return {name for name in _used(tree) if name not in bound}


def _used(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and _gone(node.id):
            yield node.id
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "native"
            and _gone(node.attr)
        ):
            yield f"native.{node.attr}"


def _bound(tree: ast.AST) -> Iterator[str]:
    """Names that a file loads or defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.arg):
            yield node.name if isinstance(node, ast.FunctionDef) else node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "load":
            yield from (word.value for word in node.args[1:] if isinstance(word, ast.Constant))
            yield from (word.arg for word in node.keywords if word.arg)


def _build_texts(tree: ast.AST) -> Iterator[str]:
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    documentation |= {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "doc"
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in documentation
            and "\n" in node.value
            and _BUILD_TEXT.search(node.value)
        ):
            yield node.value


def _loaded_in_lines(text: str) -> set[str]:
    """Words in quotes of a text's load statements: the names among them."""
    loads = re.findall(r"^load\([^)]*\)", text, re.MULTILINE)
    return set(re.findall(r'"(\w+)"', " ".join(loads)))


def starlark(root: Path) -> Iterator[Path]:
    """The .bzl and BUILD files below a folder, sorted, without hidden folders and Bazel's links."""
    for path in sorted(root.rglob("*")):
        parts = path.relative_to(root).parts
        if any(part.startswith((".", "bazel-")) or part == "node_modules" for part in parts):
            continue
        if path.suffix in (".bzl", ".BUILD") or path.name in ("BUILD", "BUILD.bazel"):
            yield path
