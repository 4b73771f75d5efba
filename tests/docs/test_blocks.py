"""Roles of a page's code blocks."""

from __future__ import annotations

import pytest
from blocks import PageError, read, starts_from

_PAGE = """\
# Title

`MODULE.bazel`:

```starlark
module(name = "a")
```

Some text. `lib/net.py` has a module, and
a function:

```python
x = 1

y = 2
```

Append to `lib/net.py`:

```python
z = 3
```

Then, as in `net.py`:

```sh
bazel build //:a
```

which prints:

```text
one … two
```

```sh
bazel test //:a
```

It fails and says:

```text
no
```

<!-- not run: needs an Android phone. -->
```sh
adb push a b
```
"""


def test_kinds() -> None:
    blocks = read(_PAGE, "a.md")
    assert [(b.line, b.kind, b.name, b.fails) for b in blocks] == [
        (5, "file", "MODULE.bazel", False),
        (12, "file", "lib/net.py", False),
        (20, "append", "lib/net.py", False),
        (26, "commands", "", False),
        (32, "output", "", False),
        (36, "commands", "", True),
        (42, "output", "", False),
        (47, "skipped", "needs an Android phone.", False),
    ]
    assert blocks[1].text == "x = 1\n\ny = 2\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Text.\n\n```starlark\nx\n```\n", 'a.md:3: the block is neither a file ("`net.py`:"'),
        # The colon is missing, or something else stands before the name.
        ("`a.py` is this.\n\n```python\nx\n```\n", "a.md:3: the block is neither a file"),
        ("See `a.py`:\n\n```python\nx\n```\n", "a.md:3: the block is neither a file"),
        ("```text\nx\n```\n", "a.md:1: the block is neither a file"),
        ("- a\n\n  ```sh\n  x\n  ```\n", "a.md:3: a fence must begin at the left margin"),
        ("```sh\nx\n", "a.md:1: the block has no end"),
        ("`../a.py`:\n\n```python\nx\n```\n", "a.md:3: the file ../a.py would lie outside"),
        ("`a.py`:\n\nMore text.\n\n```python\nx\n```\n", "a.md:5: the block is neither a file"),
    ],
)
def test_mistakes(text: str, says: str) -> None:
    with pytest.raises(PageError) as error:
        read(text, "a.md")
    assert str(error.value).startswith(says)


def test_where_a_page_starts() -> None:
    assert starts_from("# A\n\n<!-- continues from: ../../README.md -->\n\nText.\n") == (
        "../../README.md"
    )
    assert starts_from("See [the README](../../README.md).") is None
