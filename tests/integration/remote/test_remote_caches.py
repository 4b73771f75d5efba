"""Remote caches with real servers: a second client gets the first client's outputs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from client import ADAPTER_BYTES, FOUNDATION_BYTES, SAME_PLATFORM, Built, Client
from counting_proxy import CountingProxy
from dev.remote import GrpcCache, HttpCache

_SECRET = "Mellon-4c1f"


@pytest.mark.parametrize("kind", ["http_cache", "grpc_cache"])
def test_a_second_client_runs_nothing(
    request: pytest.FixtureRequest, first: Client, second: Client, built: Built, kind: str
) -> None:
    """The second client gets all outputs, including directories, equal to an executor's."""
    server: HttpCache | GrpcCache = request.getfixturevalue(kind)
    with CountingProxy(server.port) as proxy:
        flags = [flag.replace(f":{server.port}", f":{proxy.port}") for flag in server.flags]
        flags += SAME_PLATFORM
        ran = first.build_all_again(built.adapter, *flags, PASSWORD=_SECRET)
        assert ran.runners and not {name for name in ran.runners if "remote" in name}
        assert first.outputs() == built.outputs
        assert proxy.sent > FOUNDATION_BYTES
        _has_nothing_of(first, server.directory)

        second.begin(built.adapter)
        ran = second.build(*flags, "--config=remote-minimal")
        assert set(ran.runners) == {"remote cache hit"}
        assert second.outputs() == {}
        ran = second.build(*flags)
        assert set(ran.runners) <= {"remote cache hit"}, ran.printed
        assert second.outputs() == built.outputs
        if kind == "grpc_cache":
            _moves_no_foundation(flags, proxy, first, second)


def _has_nothing_of(client: Client, directory: Path) -> None:
    """A server receives no path of the machine, no variable and no host name."""
    names = [str(client.workspace.folder), str(client.workspace.base), os.path.expanduser("~/")]
    names += [socket.gethostname(), _SECRET]
    # Shorter ones are in weights by chance.
    names = [name for name in names if len(name) > 5]
    stored = [path for path in directory.rglob("*") if path.is_file()]
    assert len(stored) > 20
    for path in stored:
        contents = path.read_bytes()
        assert [name for name in names if name.encode() in contents] == [], path


def _moves_no_foundation(
    flags: list[str], proxy: CountingProxy, first: Client, second: Client
) -> None:
    """Traffic of a changed adapter, from one client to the other."""
    for client in (first, second):
        client.change_adapter(0.03)
        proxy.reset()
        ran = client.build(*flags, "//:task", "//:foundation")
        moved = proxy.sent, proxy.received
        assert (ran.runners == {"remote cache hit": 2}) == (client is second)
        assert ADAPTER_BYTES < sum(moved) < 10 * ADAPTER_BYTES < FOUNDATION_BYTES / 40, moved
    assert second.outputs()["task.ptd"] == first.outputs()["task.ptd"]
