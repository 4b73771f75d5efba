"""Finds out within seconds whether a host answers."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from urllib.parse import urlsplit

# A name server that drops requests takes longer than any time limit of a connection, so the
# limit is ours.
TIME_LIMIT_SECONDS = 3.0


def _ask(url: str) -> str:
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=TIME_LIMIT_SECONDS):
            return ""
    except urllib.error.HTTPError as error:
        # A missing page is an answer as well; a proxy that refuses or a broken gateway is not.
        refused = error.code in (403, 407, 451) or error.code >= 500
        return f"HTTP status {error.code}" if refused else ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        return str(getattr(reason, "strerror", None) or reason)


def why_unreachable(url: str, ask: Callable[[str], str] = _ask) -> str:
    """Asks a host.

    Returns:
        "" if it answers, else the reason, with the host's name.
    """
    if urlsplit(url).scheme == "file":
        return ""
    answers: list[str] = []
    thread = threading.Thread(target=lambda: answers.append(ask(url)), daemon=True)
    thread.start()
    thread.join(TIME_LIMIT_SECONDS + 0.5)
    host = urlsplit(url).netloc or url
    if not answers:
        return f"{host}: no answer within {TIME_LIMIT_SECONDS:.0f} s"
    return f"{host}: {answers[0]}" if answers[0] else ""
