"""Remote caches with real servers: what one client built, another one gets."""

from __future__ import annotations

import os
import socket

import pytest
from client import ADAPTER_BYTES, FOUNDATION_BYTES, SAME_PLATFORM, Client
from counting_proxy import CountingProxy
from etremote import Engines, GrpcCache, HttpCache


@pytest.mark.parametrize("kind", [HttpCache, GrpcCache])
def test_a_second_client_runs_nothing(
    engines: Engines, first: Client, second: Client, kind: type[HttpCache | GrpcCache]
) -> None:
    """It gets the outputs, also of directories, and they are the same."""
    with kind(engines) as server, CountingProxy(server.port) as proxy:
        flags = [flag.replace(f":{server.port}", f":{proxy.port}") for flag in server.flags]
        for client in (first, second):
            client.begin(adapter=0.02)
        ran = first.build(*flags, *SAME_PLATFORM)
        assert ran.runners and not {name for name in ran.runners if "remote" in name}
        assert proxy.sent > FOUNDATION_BYTES
        ran = second.build(*flags, *SAME_PLATFORM, "--config=remote-minimal")
        assert set(ran.runners) == {"remote cache hit"}
        assert second.outputs() == {}
        ran = second.build(*flags, *SAME_PLATFORM)
        assert set(ran.runners) <= {"remote cache hit"}
        assert second.outputs() == first.outputs()
        if kind is GrpcCache:
            _moves_no_foundation(flags, proxy, first, second)


def test_nothing_of_the_machine_leaves(engines: Engines, first: Client) -> None:
    """No path, no variable, no name of the host, in all that a cache gets."""
    secret = "Mellon-4c1f"
    first.begin(adapter=0.02)
    with HttpCache(engines) as server:
        first.build(*server.flags, *SAME_PLATFORM, PASSWORD=secret)
        names = [str(first.workspace.folder), str(first.workspace.base), secret]
        names += [os.path.expanduser("~/"), socket.gethostname()]
        # Shorter ones are in weights by chance.
        names = [name for name in names if len(name) > 5]
        stored = [path for path in server.directory.rglob("*") if path.is_file()]
        assert len(stored) > 20
        for path in stored:
            contents = path.read_bytes()
            assert [name for name in names if name.encode() in contents] == [], path


def _moves_no_foundation(
    flags: list[str], proxy: CountingProxy, first: Client, second: Client
) -> None:
    """A changed adapter, from one client to the other."""
    for client in (first, second):
        client.change_adapter(0.03)
        proxy.reset()
        ran = client.build(*flags, *SAME_PLATFORM, "//:task", "//:foundation")
        moved = proxy.sent, proxy.received
        assert (ran.runners == {"remote cache hit": 2}) == (client is second)
        assert ADAPTER_BYTES < sum(moved) < 10 * ADAPTER_BYTES < FOUNDATION_BYTES / 40, moved
    assert second.outputs()["task.ptd"] == first.outputs()["task.ptd"]
