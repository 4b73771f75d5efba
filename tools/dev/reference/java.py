"""Exports of a Java package, read from its sources: types, their methods, and doc comments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from dev.reference.python import Exported

# A string or a character, a doc comment, another comment, a brace, or a declaration up to its body.
_PART = re.compile(
    r"""
    (?P<text> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*')
    | /\*\*(?P<doc> .*?)\*/
    | (?P<comment> //[^\n]* | /\*.*?\*/)
    | (?P<open> \{)
    | (?P<close> \})
    | ^[ ]*(?:@\w+\s+)*(?P<declared> (?:public|package)\ [^;{=]+?)\s*(?P<end> [;{=])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_TYPE = re.compile(r"\b(?:class|interface|enum) (\w+)")
# In an interface and an enum, members need no "public".
_MEMBER = re.compile(r"\s*((?:\w[\w<>\[\], ]* \w+\([^;{]*\))|[A-Z_]+)\s*[;,\n]")


class Package:
    """A package's public types, each in the file of its name, and those inside of them.

    Args:
        title: heading of the page.
        folder: the package's.
    """

    def __init__(self, title: str, folder: Path) -> None:
        self.title = title
        self.name = folder.name
        self.doc = ""
        self.exported: list[Exported] = []
        hidden: list[str] = []
        for path in sorted(folder.glob("*.java")):
            source = path.read_text(encoding="utf-8")
            if path.stem == "package-info":
                self.doc = _plain(source[source.index("/**") + 3 : source.index("*/")])
            elif re.search(rf"^public .*\b{path.stem}\b", source, re.MULTILINE):
                self.exported += _types(source)
            else:
                hidden.append(path.stem)
        # What a type inherits from one of those is its own.
        inherited = re.compile(rf" extends (?:{'|'.join(hidden or ['-'])})\b")
        for one in self.exported:
            one.signature = inherited.sub("", one.signature)

    def undocumented(self) -> list[str]:
        """Lists what has no doc comment: "rulesexecutorch.Chat.say"."""
        missing = [] if self.doc else [self.name]
        for entity in self.exported:
            missing += [f"{self.name}.{entity.name}"] * (not entity.doc)
            missing += [
                f"{self.name}.{entity.name}: {member.signature}"
                for member in entity.members
                if not member.doc
            ]
        return missing


def _types(source: str) -> Iterable[Exported]:
    """Public types of a file, the outer one first."""
    types: list[Exported] = []
    around: list[Exported | None] = []
    doc = ""
    at = 0
    while part := _PART.search(source, at):
        at = part.end()
        if part["doc"] is not None:
            doc = _plain(part["doc"])
            holder = around[-1] if around else None
            member = _MEMBER.match(source, at)
            if holder and re.search(r"\b(?:interface|enum)\b", holder.signature) and member:
                holder.members.append(Exported("", " ".join(member[1].split()), doc))
                at, doc = member.end(), ""
        elif part["open"]:
            around.append(None)
        elif part["close"]:
            around.pop()
        elif part["declared"]:
            signature = " ".join(part["declared"].split()).removeprefix("public ")
            kind = _TYPE.search(signature)
            if kind:
                outer = ".".join(one.name for one in around if one)
                name = f"{outer}.{kind[1]}" if outer else kind[1]
                types.append(Exported(name, signature, doc))
            elif around and around[-1]:
                around[-1].members.append(Exported("", signature, doc))
            if part["end"] == "{":
                around.append(types[-1] if kind else None)
            doc = ""
    return types


def _plain(comment: str) -> str:
    """A doc comment without its signs and tags."""
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment.strip().splitlines()]
    text = "\n".join(lines)
    text = re.sub(
        r"<pre>\{@code\n(.*?)\n\}</pre>", lambda code: _indented(code[1]), text, flags=re.DOTALL
    )
    text = re.sub(r"\{@link\s+#?([^}]*)\}", lambda link: link[1].replace("#", "."), text)
    text = re.sub(r"\{@code\s+([^}]*)\}", r"\1", text)
    return text.replace("<p>", "").strip()


def _indented(code: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in code.splitlines())
