"""executorch_app.py: the C interface from Python."""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import os
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest
from executorch_app import (
    CONTEXT_FULL,
    FAILED,
    INVALID_ARGUMENT,
    INVALID_FILES,
    App,
    AppError,
    Chat,
    Session,
)

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


def test_errors_have_the_runtimes_own_text(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It is in the error, and nowhere else."""
    damaged = bytearray((folder / "counting.pte").read_bytes())
    damaged[97] ^= 0xFF
    (tmp_path / "damaged.pte").write_bytes(damaged)
    for _ in range(2):
        with App(tmp_path / "damaged.pte") as app, pytest.raises(AppError) as caught:
            app.session()
        assert "(ExecuTorch error 0x23: Verification failed" in str(caught.value)
    with App(folder / "counting.pte") as app, app.session() as session:
        counted(session, 3, 4)
    assert capfd.readouterr() == ("", "")


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
            ("long", changed(saved, b'"read":', b'"read":9'), '"read"'),
            ("other", saved.read_bytes().replace(b'"program":"', b'"program":"1', 1), "by another"),
            ("token", changed(saved, b'"unread":[', b'"unread":[-1,'), "32 bits"),
            (
                "early",
                changed(saved, b'"history":[', b'"history":[],"h":['),
                "contradict each other",
            ),
        ):
            (tmp_path / name).write_bytes(damaged)
            with pytest.raises(AppError, match=words) as caught:
                chat.restore(tmp_path / name)
            assert caught.value.code == INVALID_FILES
            assert (chat.turns, chat.room) == (1, room)
        with pytest.raises(AppError, match="nowhere"):
            chat.save(tmp_path / "nowhere/saved.chat")
        assert chat.say("ab").text == expected


def changed(saved: Path, old: bytes, new: bytes) -> bytes:
    """A saved chat with another conversation, whose checksum is right."""
    header, conversation, memory = saved.read_bytes().split(b"\n", 2)
    assert old in conversation
    conversation = conversation.replace(old, new, 1)
    digest = hashlib.sha256(conversation + b"\n").hexdigest()
    header = re.sub(rb'"sha256":"[0-9a-f]{64}"', f'"sha256":"{digest}"'.encode(), header)
    return b"\n".join((header, conversation, memory))


def test_each_byte_of_a_saved_chat_counts(app: App, folder: Path, tmp_path: Path) -> None:
    options = {"tokenizer": folder / "tokenizer.json", "raw": True, "max_new_tokens": 3}
    with app.session() as session, session.chat(**options) as chat:
        chat.say("abcde")
        chat.save(tmp_path / "saved.chat")
        whole = (tmp_path / "saved.chat").read_bytes()
        expected = (chat.turns, chat.room)
        chat.rewind(0)
        for at in range(len(whole)):
            (tmp_path / "flipped.chat").write_bytes(
                whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
            )
            with pytest.raises(AppError) as caught:
                chat.restore(tmp_path / "flipped.chat")
            assert caught.value.code == INVALID_FILES and chat.turns == 0, at
        chat.restore(tmp_path / "saved.chat")
        assert (chat.turns, chat.room) == expected


@pytest.mark.parametrize("most", [100, CONTEXT - 5, CONTEXT - 6])
def test_a_conversation_that_fills_its_context(
    app: App, folder: Path, tmp_path: Path, most: int
) -> None:
    options = {"tokenizer": folder / "tokenizer.json", "raw": True, "max_new_tokens": most}
    with app.session() as session, session.chat(**options) as chat:
        answer = chat.say("abcdef")
        assert answer.reason == ("context" if most > CONTEXT else "length")
        room = chat.room
        chat.save(tmp_path / "full.chat")
        chat.switch_adapter()
        assert (chat.turns, chat.room) == (1, room)
    with app.session() as session, session.chat(**options) as chat:
        chat.restore(tmp_path / "full.chat")
        assert (chat.turns, chat.room) == (1, room)
        chat.rewind(0)
        assert chat.say("abcdef") == replace(answer, prefill_ms=ANY, decode_ms=ANY)


def test_stale_parts_block_nothing(app: App, folder: Path, tmp_path: Path) -> None:
    """A process that was killed left its part; in a container the next one has its number."""
    saved = tmp_path / "a.chat"
    stale = tmp_path / f"a.chat.{os.getpid()}.part"
    with (
        app.session() as session,
        session.chat(tokenizer=folder / "tokenizer.json", raw=True) as chat,
    ):
        stale.write_bytes(b"half")
        chat.save(saved)
        assert os.listdir(tmp_path) == ["a.chat"]
        # A process that lives has its part locked.
        with stale.open("xb") as part:
            fcntl.flock(part, fcntl.LOCK_EX)
            chat.save(saved)
        assert sorted(os.listdir(tmp_path)) == ["a.chat", stale.name]
        for other in (stale, tmp_path / f"a.chat.{os.getpid()}.1.part"):
            other.unlink(missing_ok=True)
            other.mkdir()
        chat.save(saved)
        chat.restore(saved)
        assert len(os.listdir(tmp_path)) == 3
        # Two threads at once.
        with (
            app.session() as second,
            second.chat(tokenizer=folder / "tokenizer.json", raw=True) as c,
        ):
            threads = [threading.Thread(target=each.save, args=(saved,)) for each in (chat, c) * 20]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        chat.restore(saved)
        assert len(os.listdir(tmp_path)) == 3


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


def test_arrays_of_any_byte_order_and_stride(app: App) -> None:
    with app.session() as session:
        position = np.array([4])
        for tokens in (
            np.zeros((1, 3), ">i8"),
            np.zeros((3, 1), "<i8").T,
            np.zeros((1, 6), "int64")[:, ::-2],
        ):
            for at in (position, position.astype(">i8")):
                assert session.run([tokens, at])[0].argmax() == 7


# Of each parameter, what is wrong for any method. `None` is a default of some.
BAD: dict[str, list[object]] = {
    "data": [None, "a.ptd", [None], ["a\0b"], [3], 7, ["a"] * 2000, object()],
    "device": ["a", 3, [1], {"": "x"}, {"a b": "x"}, {"a": "x\0"}, {"a": "\ud800"}],
    "inputs": [
        None,
        "a",
        [None],
        [[1, [2]]],
        [np.array(["a"])],
        [object()],
        3,
        [np.zeros(1)] * 300,
    ],
    "library": ["a\0b"],
    "listener": [3],
    "manifest": ["a\0b", 3, "none.json"],
    "max_new_tokens": [-1, 2**31, 2**32, 2**64 + 1, None, "a", 1.5],
    "media": [None, "a", [[1, [2]]], np.array(["a"]), object(), 3],
    "message": [None, b"a", 3, "a\0b", "\ud800", ""],
    "method": [3, "a\0b", "\ud800", "walk"],
    "name": [3, "a\0b", "\ud800"],
    "path": [None, 3, "a\0b", "", object()],
    "program": [3, "a\0b", "\ud800", "none"],
    "raw": [],
    "records_events": [],
    "seed": [-1, 2**31, 2**32, 2**64 + 1, None, "a", 1.5],
    "state": [3, "a\0b", object()],
    "system": [3, "a\0b", "\ud800"],
    "temperature": [None, "a", -1.0, float("nan"), float("inf"), 1j],
    "tokens": [None, "a", 3, [-1], [2**32], [1.5], ["a"], [None], object()],
    "tokenizer": [3, "a\0b", "none.json"],
    "turns": [-1, 2**32, 2**64, 2**64 + 1, None, "a", 1.5],
    "variants": [None, "a", 3, [None], ["a\0b"], ["none"], [b"a"]],
    "verify": [],
    "weight_cache": [],
}
GOOD: dict[str, object] = {
    "inputs": [],
    "media": np.zeros(1),
    "message": "abc",
    "program": None,
    "tokens": [1],
    "turns": 0,
}


# Of a session and a chat while they answer, and "stop".
_MAY_BE_READ = {"is_language_model", "last_run", "last_run_ms", "methods", "room", "stop", "turns"}


def methods_of(cls: type) -> list[tuple[str, list[str]]]:
    """Public methods, with the names of their parameters; properties have none."""
    found = []
    for name, member in inspect.getmembers(cls):
        is_public = not name.startswith("_") or (name == "__init__" and cls is App)
        if is_public and isinstance(member, property):
            found.append((name, []))
        elif is_public and inspect.isfunction(member):
            found.append((name, list(inspect.signature(member).parameters)[1:]))
    return found


def call(opened: object, name: str, arguments: dict[str, object]) -> object:
    member = getattr(opened, name)
    return member(**arguments) if callable(member) else member


def expect_a_sentence(what: str, call: Callable[[], object], *, always: bool) -> None:
    try:
        result = call()
    except AppError as error:
        assert error.code and str(error), what
    else:
        assert not always, f"{what}: got {result!r}, expected an AppError"


def open_all(folder: Path) -> dict[type, Any]:
    app = App(folder / "counting.pte")
    session = app.session()
    chat = session.chat(tokenizer=folder / "tokenizer.json", raw=True, max_new_tokens=4)
    return {App: app, Session: session, Chat: chat}


def check_bad_argument(
    cls: type, name: str, given: dict[str, object], what: str, folder: Path
) -> None:
    opened = open_all(folder)
    if cls is Session and name == "chat":
        opened[Chat].close()
    if "library" in given:
        with pytest.raises((OSError, ValueError)):
            cls(**given)
    elif name == "__init__":
        expect_a_sentence(what, lambda: cls(**given), always=True)
    else:
        expect_a_sentence(what, lambda: call(opened[cls], name, given), always=True)
    opened[App].close()


def test_each_method_with_each_bad_argument(folder: Path, tmp_path: Path) -> None:
    for cls in (App, Session, Chat):
        for name, parameters in methods_of(cls):
            path = folder / "counting.pte" if name == "__init__" else tmp_path / "x"
            good = {p: (GOOD | {"path": path})[p] for p in parameters if p in {*GOOD, "path"}}
            for parameter in parameters:
                for value in BAD[parameter]:
                    what = f"{cls.__name__}.{name}: {parameter} = {value!r:.60}"
                    check_bad_argument(cls, name, good | {parameter: value}, what, folder)


def check_listener_and_closed(
    cls: type, name: str, given: dict[str, object], folder: Path, saved: Path
) -> None:
    opened = open_all(folder)
    chat, what = opened[Chat], f"{cls.__name__}.{name}"
    expected = chat.say("aaaaaa").text
    chat.save(saved)
    once: list[str] = []

    def listen(_: str) -> None:
        if not once:
            once.append("")
            of_app = cls is App and name != "close"
            may = of_app or name in _MAY_BE_READ
            expect_a_sentence(
                f"{what} of a listener", lambda: call(opened[cls], name, given), always=not may
            )

    chat.rewind(0)
    answer = chat.say("aaaaaa", listen)
    assert once and (answer.text == expected or name == "stop"), what
    chat.rewind(0)
    assert chat.say("aaaaaa").text == expected, what
    opened[App].close()
    expect_a_sentence(
        f"{what} after its app was closed",
        lambda: call(opened[cls], name, given),
        always=name not in ("close", "stop"),
    )


def test_listeners_and_closed_parents(folder: Path, tmp_path: Path) -> None:
    arguments = GOOD | {"path": tmp_path / "x"}
    for cls in (App, Session, Chat):
        for name, parameters in methods_of(cls):
            if name != "__init__":
                given = {p: arguments[p] for p in parameters if p in arguments}
                check_listener_and_closed(cls, name, given, folder, tmp_path / "x")


def close_while_it_answers(folder: Path, cls: type) -> None:
    opened = open_all(folder)
    begun = threading.Event()
    results: list[object] = []

    def answer() -> None:
        try:
            for _ in range(1000):
                opened[Chat].rewind(0)
                results.append(opened[Chat].say("aaaaaa", lambda _: begun.set()).token_ids)
        except AppError as error:
            results.append(str(error))

    threads = [threading.Thread(target=answer)]
    threads[0].start()
    begun.wait()
    threads += [threading.Thread(target=opened[cls].close) for _ in range(4)]
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join()
    assert results[-1] == "This chat is closed."
    opened[App].close()


@pytest.mark.parametrize("cls", [App, Session, Chat])
def test_closing_in_threads(folder: Path, cls: type) -> None:
    """While another thread answers, and in several threads at once."""
    for _ in range(6):
        close_while_it_answers(folder, cls)
