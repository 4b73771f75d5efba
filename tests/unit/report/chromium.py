"""Debian's headless Chromium, unpacked in the user's cache; nothing of the machine is touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from debian.apt import Apt, unpack

# Security updates replace it every few weeks, so no version is pinned.
_SUITE = "bookworm"
_PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
# The machine's own serve.
_LEFT_OUT = re.compile(r"libc6|debconf|sysvinit-utils|lsb-base|xdg-utils|libllvm.*|libgl1-mesa-dri")

_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>
"""
_LIBRARIES = ("lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/nss")


@dataclass(frozen=True)
class Window:
    """The window that shows a page.

    Attributes:
      width: pixels.
      height: pixels.
      dark: whether the user prefers dark pages.
    """

    width: int
    height: int
    dark: bool = False


class Chromium:
    """A browser without network.

    Args:
      root: where the packages are unpacked; they are fetched if they aren't there.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._program = root / "usr/lib/chromium/chromium-headless-shell"
        if not self._program.is_file():
            self._fetch()

    def _fetch(self) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="apt-", dir=self._root) as scratch:
            apt = Apt(Path(scratch) / "apt", _SUITE, "amd64")
            apt.update()
            names = [n for n in apt.closure(_PACKAGES) if not _LEFT_OUT.fullmatch(n)]
            unpack(apt.download(names, Path(scratch) / "archives"), self._root)

    def screenshot(self, page: Path, picture: Path, window: Window) -> None:
        """Writes a PNG of a page."""
        self._run(page, window, [f"--screenshot={picture}"])

    def evaluate(self, page: Path, expression: str, window: Window) -> Any:
        """Evaluates a JavaScript expression in a page and returns its value, as JSON."""
        probe = (
            f"<script>addEventListener('load',()=>{{const result=({expression});"
            "document.body.innerHTML='';const out=document.createElement('pre');out.id='result';"
            "out.textContent=btoa(encodeURIComponent(JSON.stringify(result)));"
            "document.body.append(out);});</script>"
        )
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "page.html")
            copy.write_text(page.read_text(encoding="utf-8") + probe, encoding="utf-8")
            dom = self._run(copy, window, ["--dump-dom"])
        import base64
        import urllib.parse

        result = re.search(r'id="result">([^<]*)<', dom)
        assert result, dom[-2000:]
        return json.loads(urllib.parse.unquote(base64.b64decode(result[1]).decode()))

    def _run(self, page: Path, window: Window, words: Sequence[str]) -> str:
        with tempfile.TemporaryDirectory() as home:
            fonts = Path(home, "fonts.conf")
            fonts.write_text(
                _FONTS.format(fonts=self._root / "usr/share/fonts", cache=f"{home}/fonts")
            )
            paths = [*_LIBRARIES, "usr/lib/x86_64-linux-gnu/pulseaudio"]
            return subprocess.run(
                [
                    str(self._program),
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--disable-dev-shm-usage",
                    "--hide-scrollbars",
                    "--host-resolver-rules=MAP * ~NOTFOUND",
                    f"--blink-settings=preferredColorScheme={0 if window.dark else 1}",
                    f"--window-size={window.width},{window.height}",
                    f"--user-data-dir={home}/profile",
                    *words,
                    page.absolute().as_uri(),
                ],
                env={
                    "HOME": home,
                    "PATH": os.environ.get("PATH", ""),
                    "FONTCONFIG_FILE": str(fonts),
                    "LD_LIBRARY_PATH": ":".join(str(self._root / path) for path in paths),
                },
                check=True,
                capture_output=True,
                text=True,
                timeout=120,
            ).stdout
