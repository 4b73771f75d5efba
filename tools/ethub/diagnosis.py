"""Says why Bazel could not download a file: asks the hub again, and prints one sentence.

`diagnosis.py REPO COMMIT PATH SHA256`, with HF_ENDPOINT and HF_TOKEN in the environment. Bazel's
own message has neither the hub's reason nor what to do about it.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from ethub.client import Hub, HubError, chunks, linked_sha256

# Larger files are not read again.
_MOST_BYTES = 64 << 20


def why(hub: Hub, repo: str, commit: str, path: str, sha256: str) -> HubError:
    """What keeps a file from being downloaded.

    Args:
      hub: that it comes from.
      repo: "org/model".
      commit: 40 hex digits.
      path: of the file.
      sha256: that the build expects.
    """
    where = f"{path} of {repo} at {commit}"
    try:
        answer = hub.open(repo, commit, path)
        announced = linked_sha256(answer)
        if announced and announced != sha256:
            answer.body.close()
            return _changed(where, announced, sha256)
        length = answer.body.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) <= _MOST_BYTES:
            digest = hashlib.sha256()
            for chunk in chunks(answer, where):
                digest.update(chunk)
            if digest.hexdigest() != sha256:
                return _changed(where, digest.hexdigest(), sha256)
        answer.body.close()
    except HubError as error:
        return error
    return HubError(
        f"{where}: the download was interrupted: the hub has the expected file now.",
        "Build again.",
    )


def _changed(where: str, got: str, expected: str) -> HubError:
    return HubError(
        f"{where}: the file is not the pinned one: got sha256 {got}, expected {expected}.",
        'Correct the hash with "bazel run @rules_executorch//tools:et -- pin". If commit and hash '
        "are right, a proxy or mirror changes files.",
    )


def main(arguments: list[str]) -> None:
    """Prints what is wrong, and what to do."""
    # One attempt: Bazel has waited already.
    print(why(Hub.of_environment(os.environ, attempts=1), *arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
