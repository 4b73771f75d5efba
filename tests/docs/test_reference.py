"""Everything public has a docstring; pages are generated from docstrings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dev.reference import extracted, java, pages
from dev.reference.python import Package

_FILES = sorted(Path("docs/reference").glob("*.binaryproto"))
_ETBUILD = Path("tools/etbuild")
_JAVA = Path("tools/runner/java/rulesexecutorch")


def module(**more: Any) -> Any:
    """An example file with a rule, a provider, a function and an extension."""
    attributes = [
        {"name": "srcs", "doc_string": "Files, *.py | *.pt2.\n\nAll of them.", "type": 7},
        {"name": "kind", "doc_string": "", "type": 4, "values": ["a", "b"], "mandatory": True},
    ]
    function = {"function_name": "et_fun", "doc_string": "Makes it."}
    parameter = {"name": "deps", "default_value": "[]", "doc_string": "Labels."}
    tag = {"tag_name": "sdk", "doc_string": "An SDK.", "attribute": attributes[:1]}
    return extracted.ModuleInfo(
        file="//rules:example.bzl",
        rule_info=[{"rule_name": "et_rule", "doc_string": "A rule.", "attribute": attributes}],
        provider_info=[
            {
                "provider_name": "EtInfo",
                "doc_string": "A provider.",
                "field_info": [{"name": "label", "doc_string": "Its label."}, {"name": "file"}],
            }
        ],
        func_info=[{**function, "parameter": [parameter], "returns": {"doc_string": "A struct."}}],
        module_extension_info=[{"extension_name": "ext", "tag_class": [tag]}],
        **more,
    )


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_everything_is_documented(path: Path) -> None:
    """Rules, attributes, providers, fields, functions, parameters, tags, and the files."""
    missing = extracted.undocumented(extracted.read(path))
    assert not missing, "these have no docstring:\n" + "\n".join(missing)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_everything_is_in_a_table(path: Path) -> None:
    """Rules, macros and functions with all that they take, providers with all fields."""
    sections = {}
    for page in Path("docs/reference").glob("*.md"):
        for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
            sections[section.partition("\n")[0]] = section
    for symbol, names in _tables(extracted.read(path)):
        missing = [name for name in names if f"\n| `{name}` | " not in sections[symbol]]
        assert not missing, f"docs/reference: {symbol}: no row for {', '.join(missing)}"


def _tables(module: Any) -> Iterator[tuple[str, list[str]]]:
    for rule in module.rule_info:
        # What macros take of their rules stands below the macro's name.
        symbol = rule.rule_name.removesuffix("_rule")
        yield symbol, [attribute.name for attribute in rule.attribute]
    for provider in module.provider_info:
        yield provider.provider_name, [field.name for field in provider.field_info]
    for function in module.func_info:
        yield (
            function.function_name,
            [parameter.name for parameter in function.parameter if parameter.name != "kwargs"],
        )


def test_all_files_are_checked() -> None:
    files = {extracted.read(path).file.partition("//")[2] for path in _FILES}
    assert {"rules:defs.bzl", "rules:providers.bzl", "toolchains:extensions.bzl"} <= files
    assert {f"rules/{theme}:defs.bzl" for theme in ("llm", "mobile", "tuning")} <= files


@pytest.mark.parametrize("package", [Package("", _ETBUILD), java.Package("", _JAVA)])
def test_the_packages_are_documented(package: Package | java.Package) -> None:
    missing = package.undocumented()
    assert package.exported
    assert not missing, "these have no docstring:\n" + "\n".join(missing)


def test_what_is_missing_is_named() -> None:
    """The names include their file."""
    assert extracted.undocumented(module()) == [
        "//rules:example.bzl: the file",
        "//rules:example.bzl: et_rule: attribute kind",
        "//rules:example.bzl: EtInfo: field file",
        "//rules:example.bzl: ext",
    ]


@pytest.mark.parametrize("text", ["backends = …", "backends = …".encode().decode("latin-1"), "é"])
def test_text_is_the_sources(text: str) -> None:
    """Also if Bazel encodes it twice."""
    one = extracted.ModuleInfo(rule_info=[{"attribute": [{"doc_string": text}]}])
    got = extracted.repaired(one).rule_info[0].attribute[0].doc_string
    assert got == ("é" if text == "é" else "backends = …")


def test_a_page() -> None:
    """Tables escape Markdown's delimiters; a default is code."""
    page = pages.render(pages.Page("Example", [module()]), "starlark.md.jinja")
    assert page.startswith("# Example\n\n<!-- Made from docstrings")
    assert (
        "- [EtInfo](#etinfo)\n- [et_fun](#et_fun)\n- [et_rule](#et_rule)\n- [ext](#ext)\n" in page
    )
    assert "A rule of `@rules_executorch//rules:example.bzl`.\n\nA rule.\n\n| attribute |" in page
    assert "| `srcs` | list of labels |  | Files, *.py \\| *.pt2.<br>All of them. |\n" in page
    assert "| `kind` | string | required |  One of `a`, `b`. |\n" in page
    assert "| `deps` | `[]` | Labels. |\n\nReturns: A struct.\n" in page
    assert "### ext.sdk\n\nAn SDK.\n" in page
    assert "| `label` | Its label. |\n" in page


def macro() -> Any:
    """A synthetic file with a macro that takes the attributes of a rule."""
    parameters = [{"name": "name", "doc_string": "Its name."}, {"name": "kwargs"}]
    return extracted.ModuleInfo(
        file="//rules:defs.bzl",
        func_info=[{"function_name": "et_rule", "doc_string": "A.", "parameter": parameters}],
    )


def test_a_macro_has_the_attributes_of_its_rule() -> None:
    attributes = [{"name": "name", "type": 1}, {"name": "kind", "doc_string": "Which.", "type": 4}]
    rules = extracted.ModuleInfo(rule_info=[{"rule_name": "et_rule_rule", "attribute": attributes}])
    page = pages.render(pages.Page("", [macro()], rules=[rules]), "starlark.md.jinja")
    assert "A macro of `@rules_executorch//rules:defs.bzl`.\n\nA.\n\n| attribute |" in page
    assert "| `kind` | string |  | Which. |\n" in page
    assert "kwargs" not in page and "Its name." not in page


def test_a_macro_without_its_rule() -> None:
    with pytest.raises(ValueError, match="et_rule: the rule whose .* expected et_rule_rule"):
        pages.Page("", [macro()]).entries()


def test_part_of_a_file() -> None:
    names = [
        [entry["name"] for entry in pages.Page("", [module()], symbols, without).entries()]
        for symbols, without in ((["et_rule"], []), ([], ["et_rule", "ext"]))
    ]
    assert names == [["et_rule"], ["EtInfo", "et_fun"]]
    with pytest.raises(ValueError, match="Apps: no such symbol: et_gone"):
        pages.Page("Apps", [module()], ["et_gone"]).entries()


def test_a_python_package(tmp_path: Path) -> None:
    """Only what __all__ lists; private members stay out."""
    folder = tmp_path / "example"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        '"""A package."""\nfrom example.nets import Net, run\n__all__ = ["run", "Net"]\n'
    )
    (folder / "nets.py").write_text(
        'class Net(dict):\n    """A net."""\n    def go(self) -> int: ...\n'
        "    def _no(self): ...\n\n\ndef run(x: int = 1) -> str: ...\n\n\ndef hidden(): ...\n"
    )
    package = Package("Nets", folder)
    assert package.undocumented() == ["example.Net.go", "example.run"]
    page = pages.render(package, "python.md.jinja")
    assert "- [Net](#net)\n- [run](#run)\n" in page
    assert "class Net(dict)\n\nA net.\n\ndef go(self) -> int\n" in page
    assert "def run(x: int=1) -> str" in page
    assert "hidden" not in page and "_no" not in page


def test_a_java_package(tmp_path: Path) -> None:
    """Public types and what is public in them; tags become text."""
    (tmp_path / "package-info.java").write_text("/** Nets. */\npackage nets;\n")
    (tmp_path / "Hidden.java").write_text("class Hidden { public void no() {} }\n")
    (tmp_path / "Net.java").write_text(
        """package nets;

/** A net, as {@link Net.Kind#LARGE}. */
public final class Net extends Hidden implements AutoCloseable {
  /** How large. */
  public enum Kind {
    /** With "{" and 7 layers. */
    LARGE
  }

  /** Hears. */
  public interface Listener {
    /** A part. */
    boolean onPart(String text);
  }

  private final String text = "}"; // }

  /**
   * Runs {@code forward}.
   *
   * @param x a number
   */
  @Override
  public int run(
      int x) {
    return '}' + x;
  }

  public void close() {}

  void no() {}
}
"""
    )
    package = java.Package("Nets", tmp_path)
    assert package.undocumented() == [f"{tmp_path.name}.Net: void close()"]
    page = pages.render(package, "python.md.jinja")
    assert "- [Net](#net)\n- [Net.Kind](#netkind)\n- [Net.Listener](#netlistener)\n" in page
    assert (
        "final class Net implements AutoCloseable\n\nA net, as Net.Kind.LARGE.\n\nint run( int x)"
        in page
    )
    assert "    Runs forward.\n\n    @param x a number\n" in page
    assert '\nLARGE\n\n    With "{" and 7 layers.\n' in page
    assert "\nboolean onPart(String text)\n\n    A part.\n" in page
    assert "no()" not in page and "private" not in page
