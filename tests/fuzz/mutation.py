"""Mutations of files: bytes anywhere, and parts of their format."""

from __future__ import annotations

import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Callable
from typing import Any

import yaml

# Changes bytes anywhere: of libFuzzer.
Plain = Callable[[bytes, int], bytes]
# Data, most bytes of the result, and a seed to changed data.
Mutator = Callable[[bytes, int, int], bytes]

_NUMBERS = (0, 1, 4, 8, 16, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1)
_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    2**31,
    2**63,
    1e300,
    "",
    "..",
    "/etc/passwd",
    "x" * 300,
    "0" * 64,
    [],
    {},
)


def mutator(suffix: str, plain: Plain) -> Mutator:
    """Mutations for files of a kind.

    Args:
      suffix: of the kind.
      plain: changes bytes anywhere.
    """
    kinds = {
        ".bin": _words,
        ".gguf": _words,
        ".json": _json,
        ".pt": _archive,
        ".pte": _words,
        ".ptd": _words,
        ".safetensors": _safetensors,
        ".yaml": _yaml,
    }
    of_format = kinds.get(suffix, _words)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        generator = random.Random(seed)
        if generator.random() < 0.4:
            return plain(data, most)
        changed = of_format(data, generator, plain)
        return changed if len(changed) <= most else plain(data, most)

    return mutate


def _words(data: bytes, generator: random.Random, plain: Plain) -> bytes:
    """Changes numbers: offsets, lengths, sizes."""
    if len(data) < 8:
        return plain(data, 64)
    changed = bytearray(data)
    for _ in range(generator.choice([1, 1, 2, 4])):
        form = generator.choice(["<B", "<H", "<I", "<I", "<I", "<Q"])
        width = struct.calcsize(form)
        # Tables lie at the begin, and are aligned.
        end = len(data) - width
        at = generator.randrange(min(end, generator.choice([64, 512, end])) + 1) // width * width
        (old,) = struct.unpack_from(form, changed, at)
        new = generator.choice(
            [
                generator.choice(_NUMBERS),
                old + generator.choice([-16, -4, -1, 1, 4, 16]),
                len(data) - at,
                -at,
                struct.unpack_from(form, changed, generator.randrange(end + 1))[0],
            ]
        )
        struct.pack_into(form, changed, at, new % (1 << 8 * width))
    return bytes(changed)


def _safetensors(data: bytes, generator: random.Random, plain: Plain) -> bytes:
    """Changes the JSON that describes tensors, or numbers around it."""
    (length,) = struct.unpack_from("<Q", data) if len(data) >= 8 else (0,)
    if not 0 < length <= len(data) - 8 or generator.random() < 0.2:
        return _words(data, generator, plain)
    header = _json(data[8 : 8 + length], generator, plain)
    return struct.pack("<Q", len(header)) + header + data[8 + length :]


def _yaml(data: bytes, generator: random.Random, plain: Plain) -> bytes:
    """Changes values as in JSON, which is also YAML, or bytes of lines."""
    try:
        value = json.dumps(yaml.safe_load(data))
    except (RecursionError, TypeError, ValueError, yaml.YAMLError):
        return plain(data, max(len(data), 64))
    changed = _json(value.encode(), generator, plain)
    if generator.random() < 0.5:
        return changed
    try:
        return yaml.safe_dump(json.loads(changed), allow_unicode=True).encode()
    except (RecursionError, ValueError, yaml.YAMLError):
        return changed


def _json(data: bytes, generator: random.Random, plain: Plain) -> bytes:
    """Changes values of JSON."""
    try:
        value = json.loads(data)
    except (RecursionError, ValueError):
        return plain(data, max(len(data), 64))
    positions: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            keys = list(one) if isinstance(one, dict) else range(len(one))
            positions += [(one, key) for key in keys]
            waiting += [one[key] for key in keys]
    if not positions:
        return plain(data, max(len(data), 64))
    for _ in range(generator.choice([1, 1, 2])):
        _change_json(*generator.choice(positions), generator, plain)
    try:
        return json.dumps(value).encode()
    except (RecursionError, ValueError):
        return plain(data, max(len(data), 64))


def _change_json(owner: Any, key: Any, generator: random.Random, plain: Plain) -> None:
    """Changes, removes or adds something in an object or list."""
    if key not in (owner if isinstance(owner, dict) else range(len(owner))):
        return
    what = generator.random()
    if what < 0.2:
        del owner[key]
    elif what < 0.4 and isinstance(owner, dict):
        owner[generator.choice(["", "more", str(key) * 2])] = owner[key]
    elif what < 0.4:
        owner.append(owner[key])
    elif what < 0.6 and isinstance(owner[key], str):
        owner[key] = plain(owner[key].encode(), 80).decode(errors="replace")
    else:
        owner[key] = generator.choice([*_VALUES, list(owner)])


def _archive(data: bytes, generator: random.Random, plain: Plain) -> bytes:
    """Changes a member of a zip archive, its name or the archive's own tables."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(info, archive.read(info)) for info in archive.infolist()]
    except Exception:  # zipfile raises whatever a damaged archive leads to.
        return plain(data, max(len(data), 64))
    if not members or generator.random() < 0.2:
        return _words(data, generator, plain)
    at = generator.randrange(len(members))
    info, contents = members[at]
    name, what = info.filename, generator.random()
    if what < 0.1:
        name = generator.choice(["../evil", "/evil", name + "/x", "a/../../evil", name.upper(), ""])
    elif what < 0.15:
        info.external_attr = generator.choice([0o120777, 0o060644, 0o010644]) << 16
    elif what < 0.2:
        members.append((info, contents))
    elif name.endswith(".json"):
        contents = _json(contents, generator, plain)
    else:
        change = generator.choice([_words, lambda d, g, p: p(d, max(len(d), 64))])
        contents = change(contents, generator, plain)
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore")
        for number, (one, old) in enumerate(members):
            new = zipfile.ZipInfo(name if number == at else one.filename)
            new.external_attr, new.compress_type = one.external_attr, one.compress_type
            archive.writestr(new, contents if number == at else old)
    return out.getvalue()
