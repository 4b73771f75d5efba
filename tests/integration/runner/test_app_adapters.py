"""Chats that go on with another adapter, in Python."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from executorch_app import INVALID_ARGUMENT, INVALID_FILES, App, AppError, Chat

APP = Path("tests/integration/runner/tasks/assets")
SUMMARIZER = Path("models/tasks/tiny_int4_summarizer.ptd")
FIRST, SECOND = "What is the capital of France?", "And of Spain?"


@pytest.fixture(scope="module")
def app() -> Iterator[App]:
    with App(APP) as opened:
        yield opened


@pytest.fixture
def chat(app: App) -> Iterator[Chat]:
    with (
        app.session("tiny_int4_assistant") as session,
        session.chat(max_new_tokens=12) as opened,
    ):
        yield opened


def said(app: App, program: str, *messages: str) -> list[str]:
    """The answers of a program alone."""
    with app.session(program) as session, session.chat(max_new_tokens=12) as chat:
        return [chat.say(message).text for message in messages]


@pytest.mark.parametrize(
    ("program", "data"),
    [("tiny_int4_summarizer", []), (None, [SUMMARIZER])],
    ids=["program", "file"],
)
def test_a_new_conversation(app: App, chat: Chat, program: str | None, data: list[Path]) -> None:
    assistant, summarizer = (
        said(app, f"tiny_int4_{name}", FIRST) for name in ("assistant", "summarizer")
    )
    assert assistant != summarizer
    assert [chat.say(FIRST).text] == assistant
    chat.switch_adapter(program, data)
    chat.rewind(0)
    assert [chat.say(FIRST).text] == summarizer


def test_a_conversation_goes_on(app: App, chat: Chat, tmp_path: Path) -> None:
    expected = said(app, "tiny_int4_assistant", FIRST, SECOND)
    room = chat.room
    assert chat.say(FIRST).text == expected[0]
    left = chat.room
    chat.switch_adapter("tiny_int4_base")
    assert (chat.turns, chat.room) == (1, left)
    base = chat.say(SECOND)
    assert base.text != expected[1]
    # It read the first turn, too.
    chat.rewind(1)
    chat.switch_adapter("tiny_int4_assistant")
    # Saved with no token in the cache.
    chat.save(tmp_path / "saved.chat")
    assert chat.say(SECOND).text == expected[1]
    chat.rewind(1)
    assert chat.say(SECOND).text == expected[1]
    chat.restore(tmp_path / "saved.chat")
    assert (chat.turns, chat.room) == (1, left)
    assert chat.say(SECOND).text == expected[1]
    chat.rewind(0)
    assert chat.room == room
    assert chat.say(FIRST).text == expected[0]


def test_packed_weights_tell_adapters_apart() -> None:
    """Sessions and switches of one process, whose packed weights XNNPACK finds by key."""
    names = [f"tiny_int4_{name}" for name in ("assistant", "summarizer", "base")]
    with App(APP, weight_cache=False) as app:
        expected = {name: said(app, name, FIRST) for name in names}
    assert len({*map(tuple, expected.values())}) == len(names)
    with App(APP, weight_cache=True) as app, ExitStack() as stack:
        sessions = [stack.enter_context(app.session(name)) for name in names]
        chats = [stack.enter_context(s.chat(max_new_tokens=12)) for s in sessions]
        assert [[chat.say(FIRST).text] for chat in chats] == [expected[name] for name in names]
        # The last one's own program is closed then.
        for name, data in [
            (names[0], []),
            (names[1], []),
            (names[0], [SUMMARIZER]),
            (names[0], []),
            (names[2], []),
        ]:
            chats[-1].switch_adapter(name, data)
            chats[-1].rewind(0)
            answer = [chats[-1].say(FIRST).text]
            assert answer == expected[names[1] if data else name], (name, data)
        for chat, name in zip(chats, names, strict=True):
            chat.rewind(0)
            assert [chat.say(FIRST).text] == expected[name]


def test_errors(app: App, chat: Chat, tmp_path: Path) -> None:
    expected = said(app, "tiny_int4_assistant", FIRST, SECOND)
    chat.say(FIRST)
    with pytest.raises(
        AppError, match='switch_adapter: program: got "none", expected one'
    ) as caught:
        chat.switch_adapter("none")
    assert caught.value.code == INVALID_ARGUMENT
    with pytest.raises(AppError, match=r"none\.ptd") as caught:
        chat.switch_adapter(data=[tmp_path / "none.ptd"])
    assert caught.value.code == INVALID_FILES
    (tmp_path / "cut.ptd").write_bytes(SUMMARIZER.read_bytes()[:-100])
    with pytest.raises(AppError, match=r"cut\.ptd") as caught:
        chat.switch_adapter(data=[tmp_path / "cut.ptd"])
    assert caught.value.code == INVALID_FILES
    assert chat.say(SECOND).text == expected[1]


def test_a_switch_reads_the_foundation_once(tmp_path: Path) -> None:
    """Mapped files that are unchanged are not checked again; others are."""
    folder = tmp_path / "app"
    shutil.copytree(APP, folder, copy_function=shutil.copyfile)
    (foundation,) = folder.rglob("*foundation.ptd")
    with App(folder) as app, app.session("tiny_int4_assistant") as session, session.chat() as chat:
        opened = foundation.stat()
        with open(foundation, "r+b") as file:
            file.seek(opened.st_size - 5000)
            byte = file.read(1)[0]
            file.seek(opened.st_size - 5000)
            file.write(bytes([byte ^ 1]))
        # Nobody saw it: a checksum would.
        os.utime(foundation, ns=(opened.st_atime_ns, opened.st_mtime_ns))
        chat.switch_adapter(data=[SUMMARIZER])
        os.utime(foundation)
        with pytest.raises(AppError, match="has other bytes than when it was built"):
            chat.switch_adapter(data=[SUMMARIZER])
