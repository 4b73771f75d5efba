"""Writes one page: `render --title=Rules --output=rules.md defs.binaryproto …`."""

from __future__ import annotations

import argparse
from pathlib import Path

from dev.reference import extracted, java, pages, python


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--title", required=True, help="heading of the page")
    parser.add_argument("--output", required=True, type=Path)
    parser.add_argument("--symbol", action="append", default=[], help="show this one only")
    parser.add_argument("--without", action="append", default=[], help="leave this one out")
    parser.add_argument(
        "--rules", action="append", default=[], type=Path, help="file with the rules beneath macros"
    )
    parser.add_argument(
        "--package",
        type=Path,
        help="instead: a package's __init__.py (Python) or package-info.java (Java)",
    )
    parser.add_argument("modules", nargs="*", type=Path, help="files of starlark_doc_extract")
    options = parser.parse_args()
    if options.package:
        of_language = java if options.package.suffix == ".java" else python
        page, template = (
            of_language.Package(options.title, options.package.parent),
            "python.md.jinja",
        )
    else:
        modules = [extracted.read(path) for path in options.modules]
        rules = [extracted.read(path) for path in options.rules]
        page = pages.Page(options.title, modules, options.symbol, options.without, rules)
        template = "starlark.md.jinja"
    options.output.write_text(pages.render(page, template), encoding="utf-8")


if __name__ == "__main__":
    main()
