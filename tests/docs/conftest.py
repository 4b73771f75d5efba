"""One workspace and one Bazel server for all tests that play pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from player import Player


@pytest.fixture(scope="session")
def player(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    new_player = Player(tmp_path_factory.mktemp("guides"))
    yield new_player
    new_player.close()
