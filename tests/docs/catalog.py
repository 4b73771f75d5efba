"""The messages that source code can print, and the patterns of a page that lists them.

Values in a message ("{name}", "%s", what a C++ expression inserts) are "…" here, as on the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

_PYTHON = (".bzl", ".py")
_PERCENT = re.compile(r"%[-+#0]?\d*(?:\.\d+)?[sdrfgx]")
_BRACES = re.compile(r"\{[\w.]*(?:![rs])?(?::[^{}]*)?\}")
_CXX_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_ESCAPES = {"\\n": "\n", '\\"': '"', "\\\\": "\\"}


def messages(path: Path) -> list[str]:
    """Texts of a source file, those that are put together as one.

    Args:
      path: of a .py, .bzl, C++ or shell file, or a template.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix in _PYTHON:
        return _of_python(text)
    if path.suffix in (".cc", ".h"):
        return _of_cxx(text)
    return [text]


def _of_python(text: str) -> list[str]:
    # Starlark parses as Python.
    texts = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # A docstring.
        if isinstance(node, ast.keyword) and node.arg in ("doc", "help"):
            return
        whole = _text(node)
        if whole is not None:
            texts.append(whole)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(text))
    return texts


def _text(node: ast.AST) -> str | None:
    """The text of an expression, with "…" for values; None: it is no text."""
    match node:
        case ast.Constant(value=str(value)):
            return _PERCENT.sub("…", value)
        case ast.JoinedStr(values=values):
            return "".join(
                _text(value) if isinstance(value, ast.Constant) else "…" for value in values
            )
        case ast.BinOp(left=left, op=ast.Mod()):
            return _text(left)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [_text(left), _text(right)]
            if parts != [None, None]:
                return "".join("…" if part is None else part for part in parts)
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            inner = _text(value)
            return None if inner is None else _BRACES.sub("…", inner)
        case ast.Call(
            func=ast.Attribute(value=ast.Constant(value=str(between)), attr="join"),
            args=[ast.List(elts=parts)],
        ):
            return between.join("…" if _text(part) is None else _text(part) for part in parts)
    return None


def _of_cxx(text: str) -> list[str]:
    """Statements' literals, with "…" where something stands between two of them."""
    texts = []
    without_comments = re.sub(r"^\s*(//|#include).*$", "", text, flags=re.MULTILINE)
    for statement in re.split(r"[;{}](?=\s*\n)", without_comments):
        pieces, end = [], None
        for literal in _CXX_TEXT.finditer(statement):
            if end is not None and statement[end : literal.start()].strip():
                pieces.append("…")
            pieces.append(re.sub(r'\\[n"\\]', lambda e: _ESCAPES[e[0]], literal[1]))
            end = literal.end()
        if pieces:
            texts.append("…".join(["", "".join(pieces), ""]))
    return texts


def occurs(pattern: str, texts: Iterable[str]) -> bool:
    """Tells whether one of the texts has what the page names.

    Args:
      pattern: with "…" for values. Quotes are the page's: '"…"' also stands for what Python's
        repr puts into quotes.
      texts: of `messages`.
    """
    words = [re.escape(part) for part in re.split(r'"…"|…', pattern)]
    expected = re.compile(".*?".join(words), re.DOTALL)
    return any(expected.search(text) for text in texts)


def patterns(page: str) -> list[str]:
    """The messages of a page's tables whose first column is headed "message".

    Args:
      page: its markdown.
    """
    texts = []
    reading = False
    for line in page.split("\n"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not cells:
            reading = False
        elif cells[0] == "message":
            reading = True
        elif reading and not set(cells[0]) <= set("-:"):
            texts += re.findall(r"`([^`]+)`", cells[0])
    return texts
