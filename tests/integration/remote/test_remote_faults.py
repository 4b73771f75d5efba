"""A cache that fails or contains damaged files: the build continues and is correct."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from client import FOUNDATION_BYTES, SAME_PLATFORM, Built, Client
from counting_proxy import CountingProxy
from dev.remote import Engines, HttpCache


def flags_of(cache: HttpCache, port: int) -> list[str]:
    through = [flag.replace(f":{cache.port}", f":{port}") for flag in cache.flags]
    return [*through, *SAME_PLATFORM, "--remote_retries=1", "--remote_timeout=10"]


def test_a_cache_that_ends_during_a_build(engines: Engines, built: Built, first: Client) -> None:
    """The cache fails after some outputs; the client builds the others."""
    with ThreadPoolExecutor() as pool, HttpCache(engines) as server:
        with CountingProxy(server.port) as proxy:
            flags = flags_of(server, proxy.port)
            building = pool.submit(first.build_all_again, built.adapter, *flags)
            while proxy.sent < FOUNDATION_BYTES // 2 and not building.done():
                time.sleep(0.01)
            assert not building.done()
            server.__exit__(None, None, None)
        ran = building.result()
    assert not {name for name in ran.runners if "remote" in name}
    assert first.outputs() == built.outputs


def test_damaged_files_in_a_cache(
    http_cache: HttpCache, built: Built, first: Client, second: Client
) -> None:
    """Bazel compares downloads with their digests, and rebuilds damaged ones."""
    flags = flags_of(http_cache, http_cache.port)
    files = http_cache.directory / "cas"
    if not files.exists():
        first.build_all_again(built.adapter, *flags)
    largest = max(files.iterdir(), key=lambda path: path.stat().st_size)
    assert largest.stat().st_size > FOUNDATION_BYTES
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    second.begin(built.adapter)
    printed = second.workspace.run("build", *flags, "//:app", "//:foundation", "//:task")
    assert "does not match received digest" in printed, printed
    assert second.outputs() == built.outputs
