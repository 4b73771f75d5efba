"""Runs BuildGrid's services of a cache; started by dev.remote with BuildGrid's own interpreter."""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
from pathlib import Path

import grpc
from buildgrid._protos.build.bazel.remote.execution.v2.remote_execution_pb2 import (
    ActionResult,
    Digest,
)
from buildgrid.server.actioncache.caches.action_cache_abc import ActionCacheABC
from buildgrid.server.actioncache.instance import ActionCache
from buildgrid.server.cas.instance import ByteStreamInstance, ContentAddressableStorageInstance
from buildgrid.server.cas.storage.disk import DiskStorage
from buildgrid.server.cas.storage.storage_abc import StorageABC
from buildgrid.server.exceptions import NotFoundError
from buildgrid.server.server import Server
from google.protobuf.message import DecodeError

# Bazel opens up to 100 connections by default, each with many calls.
_THREADS = 128


class DiskActionCache(ActionCacheABC):
    """Results of actions as files; BuildGrid's own caches are in memory or in a database.

    Args:
        storage: where the results' contents are: one that lacks some is not given out.
        directory: of the files, named by the digests of the actions.
    """

    def __init__(self, storage: StorageABC, directory: Path) -> None:
        super().__init__(allow_updates=True, storage=storage)
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def get_action_result(self, action_digest: Digest) -> ActionResult:
        """The result of an action.

        Raises:
            NotFoundError: there is none, or its contents are not all there.
        """
        try:
            result = ActionResult.FromString(self._path_of(action_digest).read_bytes())
        except (FileNotFoundError, DecodeError):
            raise NotFoundError(f"no result of {action_digest.hash}") from None
        if not self.referenced_blobs_still_exist(action_digest, result):
            raise NotFoundError(f"contents of the result of {action_digest.hash} are gone")
        return result

    def update_action_result(self, action_digest: Digest, action_result: ActionResult) -> None:
        """Keeps the result of an action that succeeded."""
        if action_result.exit_code:
            return
        descriptor, path = tempfile.mkstemp(dir=self._directory, prefix="incoming-")
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(action_result.SerializeToString())
            os.replace(path, self._path_of(action_digest))
        except BaseException:
            Path(path).unlink(missing_ok=True)
            raise

    def _path_of(self, digest: Digest) -> Path:
        # Of a client's own making: nothing of it may lead out of the directory.
        if len(digest.hash) != 64 or not set(digest.hash) <= set("0123456789abcdef"):
            raise NotFoundError("not a digest of SHA-256")
        return self._directory / f"{digest.hash}_{digest.size_bytes}"


def main() -> None:
    """Serves until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True, metavar="HOST:PORT")
    parser.add_argument("--directory", required=True, type=Path)
    options = parser.parse_args()
    storage = DiskStorage(str(options.directory))
    server = Server(
        server_reflection=False,
        grpc_compression=grpc.Compression.NoCompression,
        is_instrumented=False,
        grpc_server_options=[("grpc.so_reuseport", 0)],
        max_workers=_THREADS,
    )
    server.add_port(options.address, None)
    for instance in (
        ActionCache(DiskActionCache(storage, options.directory / "ac")),
        ByteStreamInstance(storage),
        ContentAddressableStorageInstance(storage),
    ):
        server.register_instance("", instance)
    signals = {signal.SIGINT, signal.SIGTERM}
    # Before threads are started, which inherit it: the signals are for sigwait.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    server.start(run_forever=False)
    signal.sigwait(signals)
    server.stop()


if __name__ == "__main__":
    main()
