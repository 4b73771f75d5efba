"""The command line: starts one server and stays until it is told to stop."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from dev.remote.engines import load_engines
from dev.remote.errors import ServerError
from dev.remote.executor import Executor
from dev.remote.grpc_cache import GrpcCache
from dev.remote.http_cache import HttpCache
from dev.remote.server import HOST, Server

# Ports that the presets name.
PORTS = {"http-cache": 9091, "grpc-cache": 9092, "executor": 9093}


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    root = argparse.ArgumentParser(
        prog="bazel run //tools/dev/remote --",
        description=f"Starts a remote cache or a remote executor on {HOST}.",
        epilog="It stops at Ctrl-C or SIGTERM. See docs/howto/ci.md.",
    )
    kinds = root.add_subparsers(dest="kind", required=True, metavar="SERVER")
    for kind, what in [
        ("http-cache", "cache over HTTP: nginx"),
        ("grpc-cache", "cache over gRPC: BuildGrid"),
        ("executor", "remote execution, and its cache: buildbox-casd"),
    ]:
        subparser = kinds.add_parser(kind, help=what, description=what)
        subparser.add_argument(
            "--port", type=_port, default=PORTS[kind], help="0: any free one (default: %(default)s)"
        )
        subparser.add_argument(
            "--directory",
            type=_path,
            help="where data is kept for the next time (default: a temporary one)",
        )
        subparser.add_argument("--verbose", action="store_true", help="show the server's log")
        if kind == "executor":
            _add_executor(subparser)
    return root


def _add_executor(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument(
        "--jobs", type=_jobs, help="actions at once (default: number of processors)"
    )
    subparser.add_argument(
        "--quota",
        default="20G",
        metavar="SIZE",
        help="of the data; the least recently used is removed (default: %(default)s)",
    )
    system = subparser.add_mutually_exclusive_group()
    system.add_argument(
        "--root",
        type=_path,
        default=Path("/"),
        metavar="DIR",
        help="folder whose usr, bin, lib, lib64 and etc actions see (default: %(default)s)",
    )
    system.add_argument(
        "--minimal-root",
        action="store_true",
        help="actions see a shell, coreutils and the C and C++ libraries; nothing of this machine",
    )


def _path(text: str) -> Path:
    # `bazel run` starts programs in a folder of its own.
    return Path(os.environ.get("BUILD_WORKING_DIRECTORY", ".")) / Path(text).expanduser()


def _port(text: str) -> int:
    if text.isdecimal() and int(text) < 65536:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text}: not a port: expected 0 to 65535")


def _jobs(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text}: not a number of actions: expected 1 or more")


def make_server(options: argparse.Namespace) -> Server:
    """The server that arguments ask for."""
    engines = load_engines()
    common = {
        "directory": options.directory,
        "port": options.port,
        "verbose": options.verbose,
    }
    if options.kind == "http-cache":
        return HttpCache(engines, **common)
    if options.kind == "grpc-cache":
        return GrpcCache(engines, **common)
    root = engines.worker if options.minimal_root else options.root
    return Executor(engines, **common, jobs=options.jobs, quota=options.quota, root=root)


class _Stopped(Exception):
    """A signal came."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code."""
    options = parser().parse_args(arguments)

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise _Stopped

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        with make_server(options) as server:
            kept = f"keeps its data in {server.directory}" if options.directory else "keeps nothing"
            print(f"{server.name} answers at {server.address} and {kept}. Bazel's flags for it:")
            print(f"  {' '.join(server.flags)}")
            print("Ctrl-C stops it.", flush=True)
            server.wait()
    except _Stopped:
        print(f"{options.kind} has ended.", flush=True)
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0
