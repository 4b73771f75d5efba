"""Markdown of a page: what .bzl files and Python packages export, in alphabetical order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import jinja2
from dev.reference import extracted


def cell(text: str) -> str:
    """Text for one cell of a table: paragraphs become lines, and bars don't end the cell."""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "<br>".join(paragraphs).replace("|", "\\|")


def default_of(item: Any) -> str:
    """The default of an attribute or parameter, as code; "required" where there is none."""
    if item.mandatory:
        return "required"
    return f"`{item.default_value}`" if item.default_value else ""


def label_of(file: str) -> str:
    """How a user names a .bzl file.

    Args:
      file: as Bazel wrote it: "//rules:defs.bzl", "@rules_executorch//rules:defs.bzl".
    """
    return "@rules_executorch//" + file.partition("//")[2]


class Page:
    """What a page shows.

    Args:
      title: its heading.
      modules: `ModuleInfo` messages.
      symbols: names that it shows; empty: all.
      without: names that it leaves out.
    """

    def __init__(
        self,
        title: str,
        modules: Iterable[Any],
        symbols: Collection[str] = (),
        without: Collection[str] = (),
    ) -> None:
        self.title = title
        self._modules = list(modules)
        self._symbols, self._without = symbols, without

    def entries(self) -> list[dict[str, Any]]:
        """The symbols with what the template needs, sorted by name.

        Raises:
          ValueError: one that the page shall show or leave out isn't there.
        """
        found = []
        known = set()
        for module in self._modules:
            file = label_of(module.file)
            for kind, name, item in _symbols(module):
                known.add(name)
                if name not in self._without and (not self._symbols or name in self._symbols):
                    found.append({"kind": kind, "name": name, "item": item, "file": file})
        unknown = sorted({*self._symbols, *self._without} - known)
        if unknown:
            raise ValueError(f"{self.title}: no such symbol: {', '.join(unknown)}")
        return sorted(found, key=lambda entry: entry["name"])


def _symbols(module: Any) -> Iterator[tuple[str, str, Any]]:
    for rule in module.rule_info:
        kind = "test rule" if rule.test else "executable rule" if rule.executable else "rule"
        yield kind, rule.rule_name, rule
    for provider in module.provider_info:
        yield "provider", provider.provider_name, provider
    for function in module.func_info:
        yield "function", function.function_name, function
    for extension in module.module_extension_info:
        yield "module extension", extension.extension_name, extension


def render(page: Any, template: str) -> str:
    """The page's markdown.

    Args:
      page: what the template calls `page`.
      template: name of a file beside this one.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).absolute().parent),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(cell=cell, default_of=default_of)
    environment.globals["types"] = extracted.TYPES
    return environment.get_template(template).render(page=page)
