"""Builds the documentation's site: `build_site --config mkdocs.yml --output FOLDER PAGE…`.

README.md becomes the first page. A link to a file that is no page, such as source code, becomes its
text; so pages keep links that work in the repository, and every other link has to be alive.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def main() -> int:
    """Runs the command; 0: done, 1: MkDocs printed what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--config", type=Path, required=True, help="MkDocs's configuration")
    parser.add_argument("--output", type=Path, required=True, help="folder to write")
    parser.add_argument("pages", nargs="+", type=Path, help="the root's pages and files below docs")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    with tempfile.TemporaryDirectory() as scratch:
        stage = Path(scratch)
        shutil.copyfile(options.config, stage / "mkdocs.yml")
        places = {_repository_path(page): page for page in options.pages}
        for path, page in sorted(places.items()):
            copy = stage / "docs" / _site_path(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if page.suffix == ".md":
                copy.write_text(_with_links(page.read_text("utf-8"), path, places), "utf-8")
            else:
                shutil.copyfile(page, copy)
        output = options.output.absolute()
        config = load_config(str(stage / "mkdocs.yml"), strict=True, site_dir=str(output))
        try:
            build(config)
        except Abort:
            return 1
    return 0


def _repository_path(page: Path) -> str:
    """Path of a page, made or not, from the repository's root."""
    parts = page.parts
    return "/".join(parts[parts.index("docs") :] if "docs" in parts else parts[-1:])


def _site_path(path: str) -> str:
    return "index.md" if path == "README.md" else path.removeprefix("docs/")


def _with_links(text: str, path: str, pages: dict[str, Path]) -> str:
    """A page whose links lead to pages of the site, or are text."""

    def link(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        file, mark, anchor = target.partition("#")
        if not file or "://" in target:
            return match[0]
        linked = os.path.normpath(os.path.join(os.path.dirname(path), file))
        if linked not in pages:
            return label
        folder = os.path.dirname(_site_path(path)) or "."
        return f"{image}[{label}]({os.path.relpath(_site_path(linked), folder)}{mark}{anchor})"

    return _LINK.sub(link, text)


if __name__ == "__main__":
    sys.exit(main())
