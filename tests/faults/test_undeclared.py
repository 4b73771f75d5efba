"""Everything that a model's code takes from outside of its declared files is refused."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from exporter_process import PORTABLE, Exporter, flags, run_once


def request(tmp_path: Path, function: str, place: object) -> list[str]:
    arguments = f"--args={json.dumps({'place': str(place)})}"
    return flags(tmp_path / "out", f"faulty:{function}", PORTABLE, arguments)


@pytest.mark.parametrize("function", ["opens_undeclared", "opens_undeclared_or_not"])
def test_a_file(exporter: Exporter, tmp_path: Path, function: str) -> None:
    """Also where the code goes on after the refusal."""
    scale = tmp_path / "scale.txt"
    scale.write_text("2")
    said = exporter.refuse(request(tmp_path, function, scale))
    assert f'//x:program: the code of its model or recipe opens "{scale}"' in said
    assert 'Add it to data, and ask for it with ctx.file("name").' in said


@pytest.mark.release
def test_a_file_without_a_worker(tmp_path: Path) -> None:
    scale = tmp_path / "scale.txt"
    scale.write_text("2")
    done = run_once(request(tmp_path, "opens_undeclared", scale), tmp_path)
    assert done.returncode == 1
    assert f'opens "{scale}", which it does not declare' in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_network(exporter: Exporter, tmp_path: Path) -> None:
    """Nothing arrives where the code wants to connect."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        said = exporter.refuse(request(tmp_path, "connects", port))
        assert "opens a network connection to 127.0.0.1; lowerings have no network" in said
        with pytest.raises(TimeoutError):
            server.accept()
