"""executorch_app.py: the C interface from Python."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from executorch_app import CONTEXT_FULL, FAILED, INVALID_ARGUMENT, INVALID_FILES, App, AppError

from tests.integration.runner.counting import CONTEXT, Counting, Stateful, write, write_tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app")
    write(folder / "counting.pte", Counting(), {"forward": None})
    write_tokenizer(folder / "tokenizer.json")
    return folder


@pytest.fixture
def app(folder: Path) -> Iterator[App]:
    with App(folder / "counting.pte") as opened:
        yield opened


def counted(session: object, tokens: int, position: int) -> int:
    inputs = [np.zeros((1, tokens), np.int64), np.array([position])]
    (logits,) = session.run(inputs)
    assert logits.dtype == np.float32 and logits.shape == (1, 256)
    return int(logits.argmax())


def test_methods(app: App, folder: Path) -> None:
    assert app.programs == [str(folder / "counting.pte")]
    with app.session() as session:
        assert session.methods[0] == "forward"
        assert counted(session, 3, 4) == 7
        first = session.run([np.zeros((1, 1), np.int64), np.array([0])])[0]
        counted(session, 2, 9)
        assert first.argmax() == 1, "an output is a copy"


def test_a_conversation(app: App, folder: Path) -> None:
    heard: list[str] = []
    with (
        app.session() as session,
        session.chat(tokenizer=folder / "tokenizer.json", raw=True, max_new_tokens=4) as chat,
    ):
        assert (chat.count_tokens("abc"), chat.room, chat.turns) == (3, CONTEXT, 0)
        answer = chat.say("abcde", heard.append)
        # Each token is the number of those before it.
        assert answer.prompt_tokens == 5 and answer.tokens == 4
        assert answer.text == "".join(heard) and answer.reason == "length"
        assert chat.turns == 1
        before = chat.room
        stopped = chat.say("a", lambda _: False)
        assert (stopped.reason, stopped.tokens) == ("stopped", 1)
        chat.rewind(1)
        assert (chat.turns, chat.room) == (1, before)
        with pytest.raises(AppError, match="does not fit into the context") as caught:
            chat.say("a" * CONTEXT)
        assert caught.value.code == CONTEXT_FULL
        assert chat.turns == 1


def test_a_state_that_is_saved(folder: Path, tmp_path: Path) -> None:
    """A program that counts in its state alone, whose earlier turns are read again."""
    program = write(tmp_path / "state.pte", Stateful(), {"forward": None}, use_recurrent_state=True)
    options = {"tokenizer": folder / "tokenizer.json", "raw": True, "max_new_tokens": 2}
    with App(program) as app:
        with app.session() as session, session.chat(**options) as chat:
            first = chat.say("abcde").text
            chat.save(tmp_path / "saved.chat")
            second = chat.say("ab").text
        with app.session() as session, session.chat(**options) as chat:
            chat.restore(tmp_path / "saved.chat")
            assert chat.say("ab").text == second
            chat.rewind(1)
            assert chat.say("ab").text == second
            chat.rewind(0)
            assert chat.say("abcde").text == first


def test_a_conversation_that_is_saved(app: App, folder: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.chat"
    options = {"tokenizer": folder / "tokenizer.json", "raw": True, "max_new_tokens": 3}
    with app.session() as session, session.chat(**options) as chat:
        chat.say("abcde")
        chat.save(saved)
        room = chat.room
        expected = chat.say("ab").text
    with app.session() as other, other.chat(**options) as chat:
        chat.say("abcdefg")
        chat.restore(saved)
        assert (chat.turns, chat.room) == (1, room)
        assert chat.say("ab").text == expected
        chat.rewind(0)
        assert chat.room == CONTEXT
        chat.restore(saved)
        for name, damaged, words in (
            ("cut", saved.read_bytes()[:-1], "is damaged: got "),
            ("flipped", saved.read_bytes()[:-1] + b"\xff", "does not have the checksum"),
            ("empty", b"", "is not a saved chat|is empty"),
            ("long", saved.read_bytes().replace(b'"read":', b'"read":9', 1), '"read"'),
            ("other", saved.read_bytes().replace(b'"program":"', b'"program":"1', 1), "by another"),
            ("token", saved.read_bytes().replace(b'"unread":[', b'"unread":[-1,', 1), "32 bits"),
        ):
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(AppError, match=words) as caught:
                chat.restore(tmp_path / name)
            assert caught.value.code == INVALID_FILES
            assert (chat.turns, chat.room) == (1, room)
        with pytest.raises(AppError, match="nowhere"):
            chat.save(tmp_path / "nowhere/saved.chat")
        assert chat.say("ab").text == expected


def test_a_session_has_one_chat(app: App, folder: Path) -> None:
    """Two would write into one KV cache; after the first is closed there may be another."""
    options = {"tokenizer": folder / "tokenizer.json", "raw": True, "max_new_tokens": 3}
    with app.session() as session:
        with session.chat(**options) as chat:
            first = chat.say("abcde").text
            with pytest.raises(AppError, match="the session has a chat, expected one") as caught:
                session.chat(**options)
            assert caught.value.code == INVALID_ARGUMENT
        with session.chat(**options) as chat:
            assert chat.say("abcde").text == first


def test_what_a_listener_raises(app: App, folder: Path) -> None:
    def fail(text: str) -> None:
        raise KeyError(text)

    with (
        app.session() as session,
        session.chat(tokenizer=folder / "tokenizer.json", raw=True) as chat,
        pytest.raises(KeyError),
    ):
        chat.say("abcde", fail)


def test_two_threads(app: App) -> None:
    results: dict[int, list[int]] = {}

    def work(number: int) -> None:
        with app.session() as session:
            results[number] = [counted(session, 2, number + i) for i in range(20)]

    threads = [threading.Thread(target=work, args=(number,)) for number in (10, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: [number + i + 2 for i in range(20)] for number in (10, 50)}


def test_errors(app: App, folder: Path) -> None:
    with pytest.raises(AppError, match=r"missing\.pte") as caught:
        App(folder / "missing.pte")
    assert caught.value.code == INVALID_FILES
    with pytest.raises(OSError, match=r"none\.so"):
        App(folder / "counting.pte", library=folder / "none.so")
    session = app.session()
    with pytest.raises(AppError, match='has no method "walk"') as caught:
        session.run([], "walk")
    assert caught.value.code == INVALID_ARGUMENT
    with pytest.raises(AppError, match="takes 2 inputs, got 1") as caught:
        session.run([np.zeros((1, 2), np.int64)])
    assert caught.value.code in (INVALID_ARGUMENT, FAILED)
    session.close()
    session.close()
    with pytest.raises(AppError, match="This session is closed"):
        _ = session.methods
