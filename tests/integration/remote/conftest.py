"""One executor and two clients for all tests: the executor gets the exporter's environment once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from client import OUR_MNEMONICS, Built, Client
from dev.remote import Engines, Executor, GrpcCache, HttpCache, load_engines


@pytest.fixture(scope="session")
def engines() -> Engines:
    """The engines of the servers."""
    return load_engines()


@pytest.fixture(scope="session")
def http_cache(engines: Engines) -> Iterator[HttpCache]:
    """A cache that one test fills and others read."""
    with HttpCache(engines) as server:
        yield server


@pytest.fixture(scope="session")
def grpc_cache(engines: Engines) -> Iterator[GrpcCache]:
    """A cache of the other protocol."""
    with GrpcCache(engines) as server:
        yield server


@pytest.fixture(scope="session")
def executor(engines: Engines) -> Iterator[Executor]:
    """An executor whose actions see nothing of this machine: no Python, no compiler."""
    with Executor(engines, quota="6G", root=engines.worker) as server:
        yield server


def _client(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[Client]:
    new_client = Client(tmp_path_factory.mktemp("client") / name)
    yield new_client
    new_client.close()


@pytest.fixture(scope="session")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """The client that builds first."""
    yield from _client(tmp_path_factory, "first")


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client in another folder, without the first client's outputs."""
    yield from _client(tmp_path_factory, "second")


@pytest.fixture(scope="session")
def built(executor: Executor, first: Client) -> Built:
    """The first client after a full build, and the actions on the worker."""
    first.begin(adapter=0.01)
    ran = first.build(*executor.flags)
    assert set(ran.runners) == {"remote"}
    assert ran.mnemonics >= OUR_MNEMONICS
    outputs = first.outputs()
    assert set(outputs) >= {"app.tar.zst", "app/runner", "foundation.ptd", "task.pte", "task.ptd"}
    return Built(first, 0.01, outputs)
