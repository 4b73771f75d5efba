"""Images in conversations, by a program whose answers are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from executorch_app import INVALID_ARGUMENT, App, AppError, Chat, Session
from tokenizers import Tokenizer

from tests.integration.runner.counting import (
    CONTEXT,
    VOCABULARY,
    Counting,
    write,
    write_seeing,
    write_tokenizer,
)

PLACE = "<i>"
# Red, green and blue of two images.
FIRST, SECOND = (7, 11, 13), (90, 80, 70)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("app")
    write_seeing(folder / "seeing.pte")
    write_tokenizer(folder / "tokenizer.json", PLACE)
    return folder


@pytest.fixture
def session(folder: Path) -> Iterator[Session]:
    with App(folder / "seeing.pte") as app, app.session() as opened:
        yield opened


@pytest.fixture
def chat(session: Session, folder: Path) -> Iterator[Chat]:
    tokenizer = folder / "tokenizer.json"
    with session.chat(tokenizer=tokenizer, raw=True, max_new_tokens=2) as opened:
        yield opened


def image(color: Sequence[int]) -> np.ndarray:
    """Pixels as image libraries have them: (4, 4, 3)."""
    pixels = np.zeros((4, 4, 3), np.uint8)
    pixels[0, 0] = color
    return pixels


def answers(folder: Path, *turns: str | Sequence[int]) -> list[list[int]]:
    """Answers behind each text; numbers are an image's."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    read: list[int] = []
    said = []
    for turn in turns:
        if not isinstance(turn, str):
            read += turn
            continue
        read += tokenizer.encode(turn).ids
        answer = []
        for _ in range(2):
            answer.append(sum(n * (i + 1) for i, n in enumerate(read)) % VOCABULARY)
            read.append(answer[-1])
        said.append(answer)
    return said


@pytest.mark.parametrize("place", [PLACE, PLACE * 3])
def test_an_image_takes_its_place(chat: Chat, folder: Path, place: str) -> None:
    """Once, or as often as it has positions; text is read in calls of four tokens around it."""
    chat.attach(image(FIRST))
    message = f"abcde{place}f"
    assert chat.count_tokens(message) == 9
    answer = chat.say(message)
    [expected] = answers_around(folder, "abcde", FIRST, "f")
    assert (list(answer.token_ids), answer.prompt_tokens) == (expected, 9)


def answers_around(folder: Path, before: str, color: Sequence[int], behind: str) -> list[list[int]]:
    """The answer behind a text with an image in it."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return answers(folder, [*tokenizer.encode(before).ids, *color], behind)


def test_turns_with_images(chat: Chat, folder: Path) -> None:
    """Two in one message, text alone, going back, and another one."""
    chat.attach(image(FIRST))
    chat.attach(image(SECOND).transpose(2, 0, 1)[np.newaxis])
    first = chat.say(f"{PLACE}{PLACE}a")
    second = chat.say("b")
    expected = answers(folder, FIRST, SECOND, "a", "b")
    assert [list(each.token_ids) for each in (first, second)] == expected
    chat.rewind(1)
    assert chat.say("b").token_ids == second.token_ids
    chat.rewind(0)
    chat.attach(image(SECOND))
    assert [list(chat.say(f"{PLACE}c").token_ids)] == answers(folder, SECOND, "c")


def test_an_image_that_nobody_spoke_of_is_forgotten(chat: Chat, folder: Path) -> None:
    chat.attach(image(FIRST))
    chat.rewind(0)
    chat.attach(image(SECOND))
    assert [list(chat.say(f"{PLACE}c").token_ids)] == answers(folder, SECOND, "c")


@pytest.mark.parametrize(
    ("count", "message", "places"),
    [(1, "a", "has 0"), (1, "<i><i>", "has 2"), (2, "<i>a", "has 1"), (0, "<i>a", "has 1")],
)
def test_places_that_do_not_fit(chat: Chat, count: int, message: str, places: str) -> None:
    """The images stay, and the right message takes them."""
    for _ in range(count):
        chat.attach(image(FIRST))
    expected = rf"the message {places} places .* token 256, \"<i>\""
    with pytest.raises(AppError, match=expected) as got:
        chat.say(message)
    assert got.value.code == INVALID_ARGUMENT
    assert chat.say(PLACE * count + "a").prompt_tokens == 3 * count + 1


@pytest.mark.parametrize(
    "media",
    [
        np.zeros((4, 5, 3), np.uint8),
        np.zeros((1, 3, 4, 4), np.float32),
        np.zeros((3, 4, 4), np.uint8),
    ],
)
def test_images_that_do_not_fit(chat: Chat, media: np.ndarray) -> None:
    with pytest.raises(AppError, match='method "vision_encoder"') as caught:
        chat.attach(media)
    assert caught.value.code == INVALID_ARGUMENT
    assert chat.say("a").prompt_tokens == 1


def test_a_conversation_with_images_is_not_saved(chat: Chat, tmp_path: Path) -> None:
    chat.attach(image(FIRST))
    chat.say(f"{PLACE}a")
    with pytest.raises(
        AppError, match="has images or recordings, which a saved chat does not hold"
    ):
        chat.save(tmp_path / "saved.chat")
    chat.rewind(0)
    chat.save(tmp_path / "saved.chat")
    chat.restore(tmp_path / "saved.chat")
    assert chat.say("a").prompt_tokens == 1


def test_programs_that_take_no_images(folder: Path, tmp_path: Path) -> None:
    write(tmp_path / "counting.pte", Counting(), {"forward": None})
    with (
        App(tmp_path / "counting.pte") as app,
        app.session() as session,
        session.chat(tokenizer=folder / "tokenizer.json", raw=True) as chat,
        pytest.raises(AppError, match="takes no image or recording in a chat: its metadata"),
    ):
        chat.attach(image(FIRST))


def test_tokens_without_a_tokenizer(session: Session) -> None:
    """Of measurements; a number that stands for an image is refused."""
    expected = (5 * 1 + 6 * 2) % VOCABULARY
    assert session.generate([5, 6], 1).token_ids == (expected,)
    with pytest.raises(AppError, match=f"token {2**31}, expected one below {2**31}"):
        session.generate([5, 2**31], 1)
    assert CONTEXT == 16


def test_the_command_line(folder: Path, tmp_path: Path) -> None:
    """--media gives images to the first message."""
    np.save(tmp_path / "image.npy", image(FIRST).transpose(2, 0, 1)[np.newaxis])
    program = ["--program", str(folder / "seeing.pte")]
    chat = ["--json", "--tokenizer", str(folder / "tokenizer.json"), "--raw_prompt"]
    chat += ["--max_new_tokens", "2", "--prompt"]
    given = ["--media", str(tmp_path / "image.npy")]

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        script = "import sys; from executorch_app import main; main(sys.argv[1:])"
        command = [sys.executable, "-c", script, *program, *words]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run(command, capture_output=True, text=True, env=environment)

    done = run(*given, *chat, f"{PLACE}a")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["programs"][0]["answer"]
    assert [answer["tokens"]] == answers(folder, FIRST, "a")
    # As many as it has positions.
    assert answer["prompt_tokens"][:3] == [256] * 3
    for more, message in (
        (given, "--media needs a --prompt or --chat"),
        (["--media", "none.npy", *chat, "a"], "none.npy"),
        ([*given, *chat, "a"], "the message has 0 places"),
    ):
        done = run(*more)
        assert done.returncode != 0 and message in done.stderr
