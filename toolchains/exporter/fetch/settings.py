"""Reads where packages come from: pip's configuration files and PIP_* variables.

pip does not run, so an interpreter without it will do, and nothing depends on which pip it is:
versions of pip differ in what they run of a package that they only download. One thing is in no
setting: the index that pip asks by default. A pip on this machine knows it.
"""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Of the first pip that is found: an interpreter's own, or one in a wheel.
_DEFAULT_INDEX = """
import sys
sys.path[:0] = sys.argv[1:]
from pip._internal.models.index import PyPI
print(PyPI.simple_url)
"""
# Where distributions of Linux keep the wheels that ensurepip installs.
_WHEEL_FOLDERS = ("/usr/share/python-wheels", "/usr/share/python3-wheels")


@dataclass(frozen=True)
class Settings:
    """Places where files are looked for, first in `find_links`, and how hosts are asked."""

    index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    # Whether pip's settings name no index, and no pip is there that has one by default.
    index_is_unknown: bool = False
    cert: str = ""
    client_cert: str = ""
    proxy: str = ""
    trusted_hosts: frozenset[str] = frozenset()
    timeout: float = 15
    retries: int = 5
    # A file with logins; "": that of the environment.
    netrc: str = ""


def files(environment: Mapping[str, str], system: str = sys.platform) -> list[Path]:
    """pip's configuration files that count, those that override others last."""
    chosen = environment.get("PIP_CONFIG_FILE", "")
    if chosen == os.devnull:
        return []
    home = Path(environment.get("HOME") or "/")
    if system == "darwin":
        machine = ["/Library/Application Support"]
        user = home / "Library/Application Support/pip"
        user = user if user.is_dir() else home / ".config/pip"
    else:
        machine = (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
        user = Path(environment.get("XDG_CONFIG_HOME") or home / ".config", "pip")
    paths = [Path(folder, "pip/pip.conf") for folder in machine] + [Path("/etc/pip.conf")]
    if not Path(chosen).is_file():
        paths += [home / ".pip/pip.conf", user / "pip.conf"]
    paths.append(Path(sys.prefix, "pip.conf"))
    return [*paths, Path(chosen)] if chosen else paths


def _options(environment: Mapping[str, str]) -> dict[str, str]:
    """The options of `pip download` by their names: "index-url"."""
    options: dict[str, str] = {}
    sections: dict[str, dict[str, str]] = {"global": {}, "download": {}}
    for path in files(environment):
        parser = configparser.RawConfigParser()
        try:
            parser.read(path, encoding="utf-8")
        except (configparser.Error, OSError, UnicodeDecodeError):
            continue  # pip refuses it, and says so; another file may have what is needed.
        for section, values in sections.items():
            if parser.has_section(section):
                values.update(parser.items(section))
    for values in sections.values():
        options.update({key.replace("_", "-"): value for key, value in values.items()})
    for name, value in environment.items():
        if name.startswith("PIP_") and value:
            options[name[4:].lower().replace("_", "-")] = value
    return options


def read(environment: Mapping[str, str] = os.environ) -> Settings:
    """The settings of this machine and this environment."""
    options = _options(environment)
    indexes, is_unknown = [], False
    if options.get("no-index", "").lower() not in ("1", "true", "yes", "on", "y", "t"):
        index = options.get("index-url") or default_index()
        is_unknown = not index
        indexes = [*([index] if index else []), *options.get("extra-index-url", "").split()]
    bundle = environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE") or ""
    return Settings(
        index_urls=tuple(dict.fromkeys(url.rstrip("/") + "/" for url in indexes)),
        find_links=tuple(dict.fromkeys(options.get("find-links", "").split())),
        index_is_unknown=is_unknown,
        cert=options.get("cert") or bundle,
        client_cert=options.get("client-cert", ""),
        proxy=options.get("proxy", ""),
        trusted_hosts=frozenset(options.get("trusted-host", "").split()),
        timeout=_number(options, "timeout", "default-timeout", 15),
        retries=int(_number(options, "retries", "", 5)),
        netrc=environment.get("NETRC", ""),
    )


def _number(options: Mapping[str, str], name: str, other: str, default: float) -> float:
    try:
        return float(options.get(name) or options.get(other) or default)
    except ValueError:
        return default


def default_index() -> str:
    """The index that pip asks unless it is told another, or "" if there is no pip to say it."""
    folders = [sysconfig.get_config_var("WHEEL_PKG_DIR"), *_WHEEL_FOLDERS]
    folders.append(os.path.join(sysconfig.get_path("stdlib"), "ensurepip/_bundled"))
    wheels = [str(w) for f in folders if f for w in sorted(Path(f).glob("pip-*.whl"), reverse=True)]
    others = ["/usr/bin/python3", "/usr/local/bin/python3", "python3"]
    attempts = [[sys.executable], *([sys.executable, wheel] for wheel in wheels)]
    for python, *path in [*attempts, *([other] for other in others)]:
        command = [python, "-I", "-c", _DEFAULT_INDEX, *path]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip()
    return ""
