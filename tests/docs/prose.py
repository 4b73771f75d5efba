"""The style of pages and docstrings: short sentences, active voice, no words that say nothing.

A page is Markdown. Its sentences are those of paragraphs and list items; code, tables and headings
have none. Inline code and a link's label count as one and as their words. Words that say nothing
are looked for everywhere but in code.

A docstring begins with a verb ("Tells whether …") or a noun, never with a clause ("Whether …"). The
same holds for `doc` and `fields` in Starlark, and for comments above declarations.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_WORDS = 30
# Percent of the sentences of a page that has at least so many. A passive is right where nobody
# cares who acts.
MAX_PASSIVE = 25
MIN_SENTENCES = 10

# What to write instead; phrases are regular expressions.
EMPTY = {
    r"a number of": "the number, or several",
    r"as (?:a matter of fact|you can see)": "nothing",
    r"basically|obviously|of course|needless to say": "nothing",
    r"easily|simply|just": "nothing",
    r"in order to": "to",
    r"it (?:is|should be) (?:noted|mentioned)": "nothing",
    r"please": "nothing",
    r"quite|rather(?! than)|really|very": "nothing, or a number",
    r"utili[sz]e[sd]?|leverag(?:es?|ed|ing)": "use",
    r"various": "several, or their names",
}

_CLAUSE = re.compile(r"(?:If|That|How|Wh(?:at(?:ever)?|en|ere|ether|ich|o|ose|y))\b")
_BLOCK = re.compile(r"^(?: *//[^\n]*\n)+|^ */\*\*.*?\*/", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(`+)[^`].*?\1", re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^)]*\)")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")
_OTHER = re.compile(r"^(?:#|\||    )")
_END = re.compile(r"(?<=[.!?:;])[*_)\"]*\s+(?=[\"*(\[]*[A-Z0-9`])|(?<=[:;])\s+")
_IRREGULAR = (
    "bound|built|chosen|done|found|given|held|kept|known|left|lost|made|meant|put|read|run|said|"
    "seen|sent|set|shown|spent|split|stored|taken|told|thrown|understood|written"
)
_PASSIVE = re.compile(
    rf"\b(?:am|are|be|been|being|gets?|is|was|were)(?: (?:also|never|not|only|then|\w+ly))* "
    rf"(?:\w{{3,}}ed|{_IRREGULAR})\b(?! to be)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page.

    Attributes:
        line: where it begins, from 1.
        text: without markup.
    """

    line: int
    text: str

    @property
    def words(self) -> int:
        """Number of words."""
        return len(re.findall(r"[\w'’./-]*\w[\w'’./-]*", self.text))

    @property
    def passive(self) -> bool:
        """Tells whether a verb is passive."""
        return bool(_PASSIVE.search(self.text))


def sentences(page: str) -> list[Sentence]:
    """The sentences of a page.

    Args:
      page: its Markdown.
    """
    found = []
    for line, paragraph in _paragraphs(_without_code(page)):
        start = 0
        for end in [match.start() for match in _END.finditer(paragraph)] + [len(paragraph)]:
            text = paragraph[start:end]
            offset = len(text) - len(text.lstrip())
            if text.strip():
                first = line + paragraph.count("\n", 0, start + offset)
                found.append(Sentence(first, " ".join(text.split())))
            start = end
    return found


def faults(page: str, name: str) -> list[str]:
    """Lists what is wrong with a page's style.

    Args:
      page: its Markdown.
      name: its path, for messages.
    """
    all_sentences = sentences(page)
    messages = [
        f"{name}:{sentence.line}: sentence: got {sentence.words} words, expected at most "
        f"{MAX_WORDS}. Split it: {sentence.text}"
        for sentence in all_sentences
        if sentence.words > MAX_WORDS
    ]
    text = _without_code(page)
    for phrase, instead in EMPTY.items():
        for match in re.finditer(rf"\b(?:{phrase})\b", text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            messages.append(f'{name}:{line}: got "{match[0]}", expected {instead}')
    passive = [sentence for sentence in all_sentences if sentence.passive]
    is_long = len(all_sentences) >= MIN_SENTENCES
    if is_long and len(passive) * 100 > MAX_PASSIVE * len(all_sentences):
        lines = ", ".join(str(sentence.line) for sentence in passive)
        messages.append(
            f"{name}: passive sentences: got {len(passive)} of {len(all_sentences)}, expected at "
            f"most {MAX_PASSIVE}%. Name who acts, in lines {lines}"
        )
    return messages


def clauses(source: str, name: str) -> list[str]:
    """Lists the docstrings and comments of a source that begin with a clause.

    Args:
      source: in Python or Starlark, else in C++, Java or Swift.
      name: its path, for messages.
    """
    texts = _docs(source) if name.endswith((".py", ".bzl")) else _comments(source)
    return [
        f'{name}:{line}: docstring: got "{match[0]} …", expected a verb ("Tells whether …") or a '
        "noun first"
        for line, text in sorted(texts)
        if (match := _CLAUSE.match(text.strip()))
    ]


def _docs(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, and texts of `doc` and `fields`, with the line that each begins in."""
    for node in ast.walk(ast.parse(source)):
        texts: list[ast.expr] = []
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            texts = [line.value for line in node.body[:1] if isinstance(line, ast.Expr)]
        elif isinstance(node, ast.Call):
            texts = [keyword.value for keyword in node.keywords if keyword.arg == "doc"]
            for keyword in node.keywords:
                if keyword.arg == "fields" and isinstance(keyword.value, ast.Dict):
                    texts += keyword.value.values
        for text in texts:
            while isinstance(text, ast.BinOp):
                text = text.left
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.lineno, text.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments on lines of their own, with the line that each begins in."""
    for match in _BLOCK.finditer(source):
        yield source.count("\n", 0, match.start()) + 1, match[0].lstrip(" /*\n")


def _without_code(page: str) -> str:
    """A page with its lines, without comments and blocks of code; inline code is "CODE"."""
    for pattern in (_COMMENT, _FENCED):
        page = pattern.sub(lambda match: "\n" * match[0].count("\n"), page)
    page = _CODE.sub(lambda match: "CODE" + "\n" * match[0].count("\n"), page)
    return _LINK.sub(_label, page)


def _label(link: re.Match[str]) -> str:
    """A link's label, with the link's line breaks."""
    return link[1] + "\n" * (link[0].count("\n") - link[1].count("\n"))


def _paragraphs(page: str) -> Iterator[tuple[int, str]]:
    """Paragraphs and list items, with the line that each begins in."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate([*page.split("\n"), ""], 1):
        item = _ITEM.match(line)
        if item or not line.strip() or _OTHER.match(line):
            if lines:
                yield first, "\n".join(lines)
            lines = []
            if item is None:
                continue
            line = line[item.end() :]
        if not lines:
            first = number
        lines.append(line)
