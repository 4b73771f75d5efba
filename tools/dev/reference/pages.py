"""Markdown of a page: what .bzl files and Python packages export, in alphabetical order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import jinja2
from dev.reference import extracted

# The doc of attributes that users of a macro do not give begins so.
_SET_BY_MACRO = "Set by the macro"


def cell(text: str) -> str:
    """Text for one cell of a table: paragraphs become lines, and bars don't end the cell."""
    paragraphs = [" ".join(part.split()) for part in text.strip().split("\n\n")]
    return "<br>".join(paragraphs).replace("|", "\\|")


def default_of(item: Any) -> str:
    """The default of an attribute or parameter, as code; "required" where there is none."""
    if item.mandatory:
        return "required"
    return f"`{item.default_value}`" if item.default_value else ""


def takes_attributes(function: Any) -> bool:
    """Tells whether a macro takes `**kwargs`: the attributes of its rule."""
    return any(parameter.name == "kwargs" for parameter in function.parameter)


def label_of(file: str) -> str:
    """Returns a .bzl file's name as users write it.

    Args:
      file: as Bazel wrote it: "//rules:defs.bzl", "@rules_executorch//rules:defs.bzl".
    """
    return "@rules_executorch//" + file.partition("//")[2]


def rule_name(macro: str) -> str:
    """The name of the rule beneath a macro; Bazel wants `_test` at the end of a test's."""
    return (
        f"{macro.removesuffix('_test')}_rule_test" if macro.endswith("_test") else f"{macro}_rule"
    )


class Page:
    """The contents of a page.

    Args:
      title: its heading.
      modules: `ModuleInfo` messages.
      symbols: names that it shows; empty: all.
      without: names that it leaves out.
      rules: `ModuleInfo` messages with the rules beneath macros, which `rule_name` names.
    """

    def __init__(
        self,
        title: str,
        modules: Iterable[Any],
        symbols: Collection[str] = (),
        without: Collection[str] = (),
        rules: Iterable[Any] = (),
    ) -> None:
        self.title = title
        self._modules = list(modules)
        self._symbols, self._without = symbols, without
        self._rules = {rule.rule_name: rule for module in rules for rule in module.rule_info}

    def entries(self) -> list[dict[str, Any]]:
        """The symbols with what the template needs, sorted by name.

        Raises:
          ValueError: a symbol that the page shall show or leave out does not exist, or a macro's
            rule is not given.
        """
        entries = []
        known = set()
        for module in self._modules:
            for kind, name, item in _symbols(module):
                known.add(name)
                if name not in self._without and (not self._symbols or name in self._symbols):
                    entries.append(self._entry(kind, name, item, label_of(module.file)))
        unknown = sorted({*self._symbols, *self._without} - known)
        if unknown:
            raise ValueError(f"{self.title}: no such symbol: {', '.join(unknown)}")
        return sorted(entries, key=lambda entry: entry["name"])

    def _entry(self, kind: str, name: str, item: Any, file: str) -> dict[str, Any]:
        entry = {"kind": kind, "name": name, "item": item, "file": file}
        if kind.endswith("rule"):
            return entry | {"attributes": item.attribute}
        if kind != "function":
            return entry
        if not takes_attributes(item):
            return entry | {"attributes": [], "parameters": item.parameter}
        rule = self._rules.get(rule_name(name))
        if rule is None:
            raise ValueError(
                f"{name}: the rule whose attributes it takes is not among the page's rules: "
                f"expected {rule_name(name)}."
            )
        attributes = [a for a in rule.attribute if not a.doc_string.startswith(_SET_BY_MACRO)]
        of_rule = {attribute.name for attribute in attributes} | {"kwargs"}
        own = [parameter for parameter in item.parameter if parameter.name not in of_rule]
        return entry | {"kind": "macro", "attributes": attributes, "parameters": own}


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
