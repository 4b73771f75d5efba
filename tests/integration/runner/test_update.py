"""Updates: the library applies what et_update writes, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from etcli.files import minisign, signing, verification
from etrelease import update_file
from executorch_app import App
from executorch_update import (
    INVALID_UPDATE,
    NOT_WRITTEN,
    OTHER_VERSION,
    UpdateError,
    apply,
    verify,
)

HERE = Path("tests/integration/runner").absolute()
CLIENT = HERE / "update_client"
RUNNER = Path("tools/runner/runner").absolute()
UPDATE = HERE / "update.update"
OLDER, NEWER = (HERE / f"version_{number}/assets" for number in (1, 2))
SIGNATURE = "manifest.json.minisig"
KILLS = 100
# Microseconds before each step.
DELAY = 200
# Beside the app's folder: what an update may leave when it is killed.
LEFT = {"app.next", "app.1", "app.2"}


def state(folder: Path) -> dict[str, bytes]:
    """Path to contents."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


VERSIONS = {}


@pytest.fixture(scope="module", autouse=True)
def versions() -> None:
    VERSIONS.update(older=state(OLDER), newer=state(NEWER))


@dataclass
class Installed:
    """An app on a device.

    Attributes:
        path: what is updated.
        is_link: whether that is a link to a folder.
    """

    path: Path
    is_link: bool = False

    def install(self) -> None:
        """Brings it back to the older version."""
        for path in self.path.parent.iterdir():
            path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)
        folder = self.path.with_name("app.1") if self.is_link else self.path
        shutil.copytree(OLDER, folder, copy_function=shutil.copyfile)
        if self.is_link:
            self.path.symlink_to("app.1")

    @property
    def version(self) -> str:
        """Which version it is, as a whole: "older" or "newer"."""
        there = state(self.path)
        (name,) = (name for name, files in VERSIONS.items() if files == there)
        return name

    def check(self, version: str) -> None:
        """Has that version, which opens, and nothing is left beside it."""
        assert self.version == version
        with App(self.path, verify=True) as app:
            assert app.programs == [
                "portable",
                {"older": "scaled_4"}.get(version, "scaled_4_embedded"),
            ]
        names = {path.name for path in self.path.parent.iterdir()}
        folder = {os.readlink(self.path)} if self.is_link else set()
        assert names == {"app", *folder}


@pytest.fixture(params=[False, True], ids=["folder", "link"])
def installed(request: pytest.FixtureRequest, tmp_path: Path) -> Installed:
    (tmp_path / "device").mkdir()
    app = Installed(tmp_path / "device/app", request.param)
    app.install()
    return app


@pytest.fixture
def app(tmp_path: Path) -> Installed:
    (tmp_path / "device").mkdir()
    app = Installed(tmp_path / "device/app")
    app.install()
    return app


def client(app: Installed, update: Path = UPDATE, **variables: object) -> dict[str, Any]:
    """Runs the client; "code" is negative if it was killed."""
    done = subprocess.run(
        [CLIENT, app.path, update],
        env={name: str(value) for name, value in variables.items()},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        return {"code": done.returncode}
    result, sentence = done.stdout.split("\n", 1)
    return json.loads(result) | {"sentence": sentence.strip()}


def test_an_update(installed: Installed) -> None:
    """It has what changed; an update that was applied changes nothing."""
    applied = apply(installed.path, UPDATE)
    changed = {
        path: len(data)
        for path, data in VERSIONS["newer"].items()
        if data not in VERSIONS["older"].values() and path != "manifest.json"
    }
    assert (applied.files, applied.written) == (len(changed), sum(changed.values()))
    installed.check("newer")
    # The weights, which were in another file.
    weights = 4096
    listing = json.loads(Path(f"{UPDATE}.json").read_text())
    assert listing["bytes"] <= applied.written - weights
    assert listing["remove"] == sorted(VERSIONS["older"].keys() - VERSIONS["newer"].keys())
    assert set(listing["keep"]) == VERSIONS["newer"].keys() - changed.keys() - {"manifest.json"}
    header = update_file.read(UPDATE).header
    assert listing["bytes"] == sum(blob["size"] for blob in header["blobs"])
    assert apply(installed.path, UPDATE).is_current
    installed.check("newer")


def test_a_kill_at_each_step(installed: Installed) -> None:
    """Before it, or in its middle if it writes; the next update removes what is left."""
    steps = client(installed)["steps"]
    assert steps > 30
    seen = set()
    for step in range(1, steps + 1):
        installed.install()
        assert client(installed, KILL_AT=step) == {"code": -signal.SIGKILL}
        seen.add(installed.version)
        names = {path.name for path in installed.path.parent.iterdir()}
        assert names - LEFT <= {"app"}, "what is left has a name of its own"
        assert client(installed)["code"] == 0
        installed.check("newer")
    assert seen == {"older", "newer"}


def test_kills_at_any_time(installed: Installed) -> None:
    """By another process."""
    durations = []
    for _ in range(3):
        installed.install()
        start = time.monotonic()
        client(installed, DELAY=DELAY)
        durations.append(time.monotonic() - start)
    times = random.Random(0)
    seen = {"older": 0, "newer": 0}
    killed = 0
    # On a busy machine many kills come too late.
    for _ in range(10 * KILLS):
        if killed > KILLS // 4 and min(seen.values()) > 0:
            break
        installed.install()
        command = [CLIENT, installed.path, UPDATE]
        with subprocess.Popen(
            command, env={"DELAY": str(DELAY)}, stdout=subprocess.DEVNULL
        ) as process:
            time.sleep(times.uniform(0, min(durations)))
            process.kill()
        killed += process.returncode == -signal.SIGKILL
        seen[installed.version] += 1
        with App(installed.path, verify=True):
            pass
    assert killed > KILLS // 4
    assert min(seen.values()) > 0, seen


def test_a_full_disk_at_each_step(installed: Installed) -> None:
    """It leaves the older version and nothing else; only removing the older version may fail."""
    steps = client(installed)["steps"]
    failed = 0
    for step in range(1, steps + 1):
        installed.install()
        result = client(installed, FAIL_AT=step)
        if result["code"]:
            failed += 1
            assert result["code"] == NOT_WRITTEN
            assert "No space left on device" in result["sentence"]
            installed.check("older")
        else:
            assert installed.version == "newer"
    assert failed > 20


def test_a_file_of_limited_size(app: Installed) -> None:
    limit = 1000
    done = subprocess.run(
        [RUNNER, "--app", app.path, "--apply_update", UPDATE],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert done.returncode == 1 and "cannot be written: File too large." in done.stderr
    app.check("older")


def test_a_system_without_links(installed: Installed) -> None:
    assert client(installed, NO_LINK=1)["code"] == 0
    installed.check("newer")


def test_a_file_system_that_exchanges_nothing(installed: Installed) -> None:
    result = client(installed, NO_EXCHANGE=1)
    if installed.is_link:
        assert result["code"] == 0
        installed.check("newer")
    else:
        assert result["code"] == NOT_WRITTEN
        assert 'Rename it to "app.1", and make "app" a link to that.' in result["sentence"]
        installed.check("older")


def test_the_runner_applies_it(app: Installed) -> None:
    command = [RUNNER, "--app", app.path, "--apply_update", UPDATE]
    first = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "updated to //tests/integration/runner:version_2" in first
    again = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "has //tests/integration/runner:version_2 of this update already." in again
    app.check("newer")


def test_own_files_stay(app: Installed) -> None:
    """Also one in a folder of its own, and one whose name the newer version takes."""
    (app.path / "chats").mkdir()
    (app.path / "chats/first.chat").write_text("saved")
    (app.path / "words.db").write_text("cache")
    taken = "assets/version_2/words.txt"
    (app.path / taken).parent.mkdir(parents=True)
    (app.path / taken).write_text("another")
    apply(app.path, UPDATE)
    assert state(app.path) == VERSIONS["newer"] | {
        "chats/first.chat": b"saved",
        "words.db": b"cache",
    }


def test_an_open_app_keeps_its_files(app: Installed) -> None:
    with App(app.path) as opened:
        apply(app.path, UPDATE)
        with opened.session("scaled_4") as session:
            assert session.methods
    app.check("newer")


def test_another_version(app: Installed, tmp_path: Path) -> None:
    manifest = app.path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"format": 1', b'"format":  1'))
    there = state(app.path)
    with pytest.raises(UpdateError, match="the update is for another version of the app") as caught:
        apply(app.path, UPDATE)
    assert caught.value.code == OTHER_VERSION
    assert state(app.path) == there


@pytest.mark.parametrize("path", ["programs/portable.pte", "data/scaled_4.ptd"])
def test_a_damaged_app(app: Installed, path: str) -> None:
    """An unchanged file, and one whose parts the newer version takes."""
    file = app.path / path
    data = bytearray(file.read_bytes())
    data[-100] ^= 1
    file.write_bytes(data)
    there = state(app.path)
    with pytest.raises(UpdateError, match="install it again") as caught:
        apply(app.path, UPDATE)
    assert caught.value.code == OTHER_VERSION
    assert state(app.path) == there
    file.unlink()
    with pytest.raises(UpdateError):
        apply(app.path, UPDATE)
    app.path.joinpath(path).write_bytes(VERSIONS["older"][path])
    app.check("older")


def test_a_link_elsewhere(app: Installed) -> None:
    app.path.rename(app.path.with_name("first"))
    app.path.symlink_to("first")
    with pytest.raises(UpdateError, match='is a link to "first", expected one to "app.1"'):
        apply(app.path, UPDATE)


# Hostile updates


def rewritten(tmp_path: Path, change: Any, manifest: bytes | None = None) -> Path:
    """The update with another header, and, if given, with another manifest and its hash."""
    update = update_file.read(UPDATE)
    header = json.loads(json.dumps(update.header))
    text = update.manifest if manifest is None else manifest
    header["current"] |= {"size": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    change(header)
    path = tmp_path / "hostile.update"
    changed = update_file.Update(path, header, text, b"", update.blobs)
    update_file.write(path, changed, [update.blobs])
    return path


def parts(header: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of the program whose weights are in another file of the older version."""
    return header["files"]["programs/scaled_4_embedded.pte"]["parts"]


def copied(header: Mapping[str, Any]) -> dict[str, Any]:
    (part,) = (part for part in parts(header) if "file" in part)
    return part


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: copied(h).update(offset=2**63), "has bytes 9223372036854775808 + "),
        (lambda h: copied(h).update(offset=4000), 'of "data/scaled_4.ptd", which has'),
        (lambda h: copied(h).update(file="../x"), 'names the file "../x"'),
        (lambda h: copied(h).update(file="/etc/passwd"), 'names the file "/etc/passwd"'),
        (lambda h: copied(h).update(file="data/other.ptd"), 'of "data/other.ptd", which has 0.'),
        (lambda h: copied(h).update(offset=0), "has sha256"),
        (lambda h: parts(h).append({"blob": 0}), "that are not"),
        (lambda h: parts(h).pop(), "that are not"),
        (lambda h: parts(h)[0].update(blob=99), "is blob 99 of "),
        (
            lambda h: h["files"].pop("programs/scaled_4_embedded.pte"),
            'lacks "programs/scaled_4_emb',
        ),
        (lambda h: h["files"].update({"../x": {"parts": []}}), 'has the file "../x", which its'),
        (lambda h: h["blobs"][0].update(sha256="0" * 64), "blob 0: sha256"),
        (lambda h: h["blobs"][0].update(size=2**63), "a blob ends after the file"),
        (lambda h: h["blobs"].pop(), "is damaged: got"),
        (lambda h: h["current"].update(sha256="0" * 64), "its manifest: sha256"),
        (lambda h: h["current"].update(size=2**40), "its manifest ends after the file"),
        (lambda h: h.update(format=2), "has format 2, expected 1"),
        (lambda h: h.update(files=[]), '"files" is missing or not of type object'),
    ],
)
def test_a_hostile_header(app: Installed, tmp_path: Path, change: Any, message: str) -> None:
    with pytest.raises(UpdateError) as caught:
        apply(app.path, rewritten(tmp_path, change))
    assert message in str(caught.value)
    app.check("older")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"../x": {}}, 'names the file "../x"'),
        ({"/tmp/x": {}}, 'names the file "/tmp/x"'),
        ({"a\\b": {}}, "expected a path below its own folder"),
        ({"manifest.json": {}}, 'lists "manifest.json", which it cannot contain'),
        ({SIGNATURE: {}}, "which it cannot contain"),
        ({"new": {}, "new/file": {}}, "cannot be written: "),
        ({"new": {"size": 2**62}}, "that are not 4611686018427387904 bytes"),
    ],
)
def test_a_hostile_manifest(
    app: Installed, tmp_path: Path, files: Mapping[str, Any], message: str
) -> None:
    """Its new files have the bytes of a blob, so that only their names are wrong."""
    update = update_file.read(UPDATE)
    manifest = json.loads(update.manifest)
    blob = update.header["blobs"][0]
    manifest["files"] |= {name: blob | about for name, about in files.items()}
    more = {name: {"parts": [{"blob": 0}]} for name in files}
    path = rewritten(tmp_path, lambda h: h["files"].update(more), json.dumps(manifest).encode())
    with pytest.raises(UpdateError) as caught:
        apply(app.path, path)
    assert message in str(caught.value)
    app.check("older")


def test_names_twice(app: Installed, tmp_path: Path) -> None:
    data = UPDATE.read_bytes()
    name = b'"files":{'
    twice = data.replace(name, name + b'"programs/scaled_4_embedded.pte":{"parts":[]},')
    size = int.from_bytes(data[8:16], "little") + len(twice) - len(data)
    path = tmp_path / "twice.update"
    path.write_bytes(twice[:8] + size.to_bytes(8, "little") + twice[16:])
    with pytest.raises(UpdateError, match="twice") as caught:
        apply(app.path, path)
    assert caught.value.code == INVALID_UPDATE
    app.check("older")


def test_each_truncation_and_changed_byte(app: Installed, tmp_path: Path) -> None:
    """At some places; each is noticed before anything is written."""
    data = UPDATE.read_bytes()
    path = tmp_path / "damaged.update"
    places = random.Random(1).sample(range(len(data)), 60)
    for place in [*range(20), *places]:
        path.write_bytes(data[:place])
        with pytest.raises(UpdateError) as caught:
            apply(app.path, path)
        assert caught.value.code == INVALID_UPDATE
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x11]) + data[place + 1 :])
        try:
            apply(app.path, path)
        except UpdateError:
            app.check("older")
        else:
            # A name in a label.
            app.check("newer")
            app.install()


# Signatures: minisign 0.11 made the keys and the signature of "manifest.json", with -W and without.

FIXTURES = HERE / "minisign"
PUBLIC_KEY = "minisign.pub"


def key() -> str:
    return (FIXTURES / PUBLIC_KEY).read_text()


def signed_by_minisign(folder: Path) -> Path:
    """A folder with a manifest that minisign signed."""
    folder.mkdir()
    for name in ("manifest.json", SIGNATURE):
        shutil.copy(FIXTURES / name, folder / name)
    (folder / "file.txt").write_text("contents\n")
    return folder


def test_a_signature_of_minisign(tmp_path: Path) -> None:
    folder = signed_by_minisign(tmp_path / "signed")
    public = minisign.read_public_key(str(FIXTURES / PUBLIC_KEY))
    line = key().splitlines()[1]
    verify(folder, key())
    verify(folder, line)
    assert minisign.read_public_key(line) == public
    assert verification.verify(folder, [], public)["ok"]
    (folder / "file.txt").write_text("Contents\n")
    with pytest.raises(UpdateError, match="has sha256"):
        verify(folder, key())


def damaged_signatures(text: str) -> Sequence[tuple[str, str]]:
    lines = text.splitlines()

    def with_line(number: int, line: str) -> str:
        return "\n".join([*lines[:number], line, *lines[number + 1 :]]) + "\n"

    other = "B" if lines[1][20] != "B" else "C"
    return [
        ("", "malformed"),
        ("\n".join(lines[:3]), "malformed"),
        (with_line(1, lines[1][:-1]), "malformed"),
        (with_line(1, lines[1][:-4] + "????"), "malformed"),
        (with_line(2, lines[2] + "."), "does not fit"),
        (with_line(2, "comment"), "malformed"),
        (with_line(1, lines[1][:20] + other + lines[1][21:]), "does not fit"),
        (
            with_line(3, "A" + lines[3][1:] if lines[3][0] != "A" else "B" + lines[3][1:]),
            "does not fit",
        ),
        (with_line(1, "RW" + lines[1][2:]), 'is of the kind "Ed", expected "ED"'),
        (with_line(1, lines[1][:5] + other + lines[1][6:]), "another key signed it: got "),
    ]


def test_damaged_signatures(tmp_path: Path) -> None:
    """The library and the tool say the same."""
    folder = signed_by_minisign(tmp_path / "signed")
    public = minisign.read_public_key(key())
    signature = folder / SIGNATURE
    text = signature.read_text()
    for damaged, message in damaged_signatures(text):
        if damaged == text:
            continue
        signature.write_text(damaged)
        with pytest.raises(UpdateError, match=message) as caught:
            verify(folder, key())
        problems = verification.verify(folder, [], public)["problems"]
        assert len(problems) == 1
        assert message in problems[0] or not damaged and "is not signed" in problems[0]
        if damaged:
            assert str(caught.value).endswith(problems[0].removeprefix("manifest.json"))


@pytest.mark.parametrize("wrong", ["", "RW", "RWQ" + "A" * 53, "x" * 56])
def test_a_wrong_key(tmp_path: Path, wrong: str) -> None:
    """An empty one is not "no key"."""
    folder = signed_by_minisign(tmp_path / "signed")
    with pytest.raises(UpdateError, match="public key: got|another key signed it"):
        verify(folder, wrong)


# Encrypting a key takes 1 GB of memory.
@pytest.mark.parametrize(
    "name", ["plain.key", pytest.param("encrypted.key", marks=pytest.mark.release)]
)
def test_sign_and_apply(
    app: Installed, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key of minisign; the encrypted one's password comes from standard input."""
    password = tmp_path / "password"
    password.write_text("correct horse\n")
    with password.open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        signed = tmp_path / "signed.update"
        signing.sign(UPDATE, key=FIXTURES / name, output=signed)
    public = (FIXTURES / name).with_suffix(".pub").read_text()
    assert verification.verify(signed, [], minisign.read_public_key(public))["ok"]
    apply(app.path, signed, public_key=public)
    assert (app.path / SIGNATURE).is_file()
    verify(app.path, public)
    done = subprocess.run(
        [RUNNER, "--app", app.path, "--public_key", public.split("\n")[1], "--list"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    # What follows is of another version, and is not signed.
    (app.path / SIGNATURE).unlink()
    app.check("newer")


def test_unsigned_and_changed_updates(app: Installed, tmp_path: Path) -> None:
    public = (FIXTURES / "plain.pub").read_text()
    with pytest.raises(
        UpdateError, match="is not signed. Sign it: et sign update.update"
    ) as caught:
        apply(app.path, UPDATE, public_key=public)
    assert caught.value.code == INVALID_UPDATE
    signed = tmp_path / "signed.update"
    signing.sign(UPDATE, key=FIXTURES / "plain.key", output=signed)
    with pytest.raises(UpdateError, match="another key signed it"):
        apply(app.path, signed, public_key=key())
    update = update_file.read(signed)
    manifest = update.manifest.replace(b"version_2", b"version_3")
    changed = dict(update.header)
    changed["current"] |= {"sha256": hashlib.sha256(manifest).hexdigest()}
    path = tmp_path / "changed.update"
    update_file.write(
        path,
        update_file.Update(path, changed, manifest, update.signature, update.blobs),
        [update.blobs],
    )
    with pytest.raises(UpdateError, match="its signature does not fit"):
        apply(app.path, path, public_key=public)
    with pytest.raises(UpdateError, match="public key: got"):
        apply(app.path, signed, public_key="")
    app.check("older")
