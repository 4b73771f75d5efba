"""Opens URLs as pip's settings say: certificates, proxies, logins, retries."""

from __future__ import annotations

import base64
import contextlib
import http.client
import netrc
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from .settings import Settings

Value = TypeVar("Value")
# Where systems keep certificates; for interpreters that know of none.
BUNDLES = ("/etc/ssl/cert.pem", "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/cert.pem")


class Truncated(OSError):
    """A response that is shorter than its header says."""


def without_login(url: str) -> str:
    """A URL as it may be shown, without user and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query=""))


def request_url(url: str) -> str:
    """A URL as a server is asked for it, without user, password and fragment."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment=""))


def logins(urls: Iterable[str]) -> dict[str | None, tuple[str, str]]:
    """Users and passwords in URLs by host; they hold for other files of it."""
    found = {}
    for url in urls:
        parts = urlsplit(url)
        if parts.username is not None:
            login = unquote(parts.username), unquote(parts.password or "")
            found[parts.hostname] = login
    return found


def reason_of(error: Exception) -> str:
    """The reason of a failure, in one line."""
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP status {error.code}"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", None) or reason).split("\n")[0] or type(error).__name__


def _context(settings: Settings, trusted: bool) -> ssl.SSLContext:
    if trusted:
        context = ssl._create_unverified_context()
    else:
        folder = os.path.isdir(settings.cert)
        context = ssl.create_default_context(
            cafile=None if folder else settings.cert or None,
            capath=settings.cert if folder else None,
        )
        bundle = next(filter(os.path.exists, BUNDLES), "")
        if not settings.cert and bundle and not context.cert_store_stats()["x509_ca"]:
            context.load_verify_locations(bundle)
    if settings.client_cert:
        context.load_cert_chain(settings.client_cert)
    return context


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; a login goes to no other host than its own."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def redirect_request(self, request, response, code, message, headers, url):  # type: ignore[no-untyped-def]
        kept = {k: v for k, v in request.headers.items() if k.lower() != "authorization"}
        return self._network.request(url, kept)


class Network:
    """Everything that one run asks of the network."""

    def __init__(self, settings: Settings, urls: tuple[str, ...] = ()) -> None:
        """`urls` may have logins for other files of their hosts."""
        self.settings = settings
        self._logins = logins((*settings.index_urls, *settings.find_links, *urls))
        self._openers: dict[bool, urllib.request.OpenerDirector] = {}

    def request(self, url: str, headers: Mapping[str, str]) -> urllib.request.Request:
        """A request with the login for its host."""
        parts = urlsplit(url)
        request = urllib.request.Request(request_url(url), headers=dict(headers))
        login = self.login_in(url) or self._netrc(parts.hostname or "")
        if login and parts.scheme in ("http", "https"):
            coded = base64.b64encode(":".join(login).encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {coded}")
        return request

    def login_in(self, url: str) -> tuple[str, str] | None:
        """The login for a URL in itself or in another one of its host."""
        return (self._logins | logins([url])).get(urlsplit(url).hostname)

    def _netrc(self, host: str) -> tuple[str, str] | None:
        path = self.settings.netrc or os.path.join(os.environ.get("HOME", ""), ".netrc")
        try:
            entry = netrc.netrc(path).authenticators(host)
        except (OSError, netrc.NetrcParseError):
            return None
        return (entry[0] or "", entry[2] or "") if entry else None

    def _opener(self, url: str) -> urllib.request.OpenerDirector:
        parts = urlsplit(url)
        hosts = {parts.hostname, f"{parts.hostname}:{parts.port}"}
        trusted = bool(hosts & self.settings.trusted_hosts)
        if trusted not in self._openers:
            context = _context(self.settings, trusted)
            handlers = [urllib.request.HTTPSHandler(context=context), _Redirects(self)]
            if proxy := self.settings.proxy:
                proxy = proxy if "://" in proxy else f"http://{proxy}"
                handlers.append(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
            self._openers[trusted] = urllib.request.build_opener(*handlers)
        return self._openers[trusted]

    @contextlib.contextmanager
    def _open(self, url: str, accept: str) -> Iterator[IO[bytes]]:
        headers = {"Accept": accept, "User-Agent": "rules_executorch"}
        opener = self._opener(url)
        with opener.open(self.request(url, headers), timeout=self.settings.timeout) as response:
            yield response

    def _again(self, attempt: Callable[[], Value]) -> Value:
        """Tries again after failures that may pass."""
        for number in range(self.settings.retries + 1):
            try:
                return attempt()
            except (OSError, http.client.HTTPException) as error:
                final = isinstance(error, urllib.error.HTTPError) and error.code < 500
                if final or number >= self.settings.retries:
                    raise
                time.sleep(min(0.25 * 2**number, 8))
        raise AssertionError

    def read(self, url: str, accept: str) -> tuple[bytes, str, str]:
        """A page's bytes, its type, and the URL that it is at after redirects."""

        def attempt() -> tuple[bytes, str, str]:
            with self._open(url, accept) as response:
                return response.read(), response.headers.get_content_type(), response.geturl()

        return self._again(attempt)

    def download(self, url: str, path: Path) -> None:
        """Writes what is at a URL to a file."""

        def attempt() -> None:
            with self._open(url, "*/*") as response, path.open("wb") as file:
                while block := response.read(1 << 20):
                    file.write(block)
                expected = response.headers.get("Content-Length")
                if expected and file.tell() != int(expected):
                    raise Truncated(f"got {file.tell()} of {expected} bytes")

        self._again(attempt)
