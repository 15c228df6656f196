"""The HTTP client that every adapter's SDK is given, so that all of them fail in the same few ways.

Left alone the SDKs choose between httpx and aiohttp by what happens to be installed, read bodies of any size, guess encodings,
follow redirects with the key in a header, and lose the status when an error body is not what they expect. One client with
one hook settles that before an SDK sees the answer: what gets through has status 200 and is UTF-8 of a bounded size.
"""

from __future__ import annotations

import functools
import gc
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import httpx

from graph_agent.errors import LLMError
from graph_agent.llm.failures import (
    CutShortError,
    Failure,
    RefusedError,
    UnreadableError,
    refused,
    refuses_key,
    retry_after,
    timed_out,
    unreachable,
    unreadable,
)
from graph_agent.llm.turnstile import Turnstile

MAX_BODY_BYTES = 4 * 1024 * 1024
"""An answer of `max_tokens` is a few kilobytes; signatures and grounding make it tens. More is a fault."""

_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
"""What a body may come as, and all that is asked for."""

MAX_CONNECTIONS = 64
"""In flight at once, for one adapter in one event loop; the others wait their turn."""


@functools.cache
def trusted() -> ssl.SSLContext:
    """The one TLS context of the process: reading the certificates takes longer than a call."""
    return httpx.create_ssl_context()


def open_client(turnstile: Turnstile | None = None, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
    """A client for one event loop. The SDK sets a timeout for each call; proxies come from the environment.

    Answers pass `turnstile`, if there is one, on their way to the SDK.
    """

    async def arrived(response: httpx.Response) -> None:
        await admit(response)
        if turnstile is not None:
            await turnstile.enter()

    return httpx.AsyncClient(
        headers={"accept-encoding": "gzip, deflate", **(headers or {})},
        verify=trusted(),
        timeout=None,  # each request brings its own
        follow_redirects=False,
        limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
        event_hooks={"response": [arrived]},
    )


@functools.cache
def leave_alone(_sdk: str) -> None:
    """Take what is loaded by now out of garbage collection, once for each SDK.

    The SDKs bring a hundred thousand objects that live as long as the process. A full collection looks at all of them, which
    stops the event loop for a tenth of a second while calls are in flight.
    """
    gc.collect()
    gc.freeze()


async def admit(response: httpx.Response) -> None:
    """Let an answer through to the SDK, or raise what is wrong with it."""
    if response.status_code != 200:
        raise await _refusal(response)
    body = await _read(response)
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise UnreadableError from exc
    response.encoding = "utf-8"  # JSON is UTF-8 whatever the content type claims


async def _refusal(response: httpx.Response) -> RefusedError:
    """What a status says. An error page need not be JSON, nor whole, nor readable: the status is enough."""
    told: Any = None
    with suppress(CutShortError, UnreadableError, ValueError, RecursionError):
        told = json.loads(await _read(response))
    return RefusedError(response.status_code, retry_after(told, response.headers), bad_key=refuses_key(told))


async def _read(response: httpx.Response) -> bytes:
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    encoding = response.headers.pop("content-encoding", "")  # so that nobody decompresses once more, without a bound
    response.stream = _Bounded(stream, compressed=encoding.strip().lower() in _COMPRESSED)
    try:
        return await response.aread()
    except (httpx.RemoteProtocolError, httpx.ReadError) as exc:
        raise CutShortError from exc
    except zlib.error as exc:
        raise UnreadableError from exc


class _Bounded(httpx.AsyncByteStream):
    """A body that may not go on for ever, decompressed: a thousandth of what is too much can swell to it."""

    def __init__(self, stream: httpx.AsyncByteStream, *, compressed: bool) -> None:
        self._stream = stream
        self._compressed = compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        inflating: zlib._Decompress | None = None
        left = MAX_BODY_BYTES
        async for chunk in self._stream:
            piece = chunk
            if self._compressed and chunk:
                inflating = inflating or _inflating(chunk)
                piece = inflating.decompress(chunk, left + 1)
            left -= len(piece)
            if left < 0:
                raise UnreadableError
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _inflating(first: bytes) -> zlib._Decompress:
    """By its first byte: gzip, zlib, or the same without a header, which some servers send as `deflate`."""
    headed = first[0] == 0x1F or first[0] & 0x0F == 8
    return zlib.decompressobj(47 if headed else -15)


Meaning = Callable[[Any, str], Failure]
"""From the exception and the model's name to what it means."""

Table = tuple[tuple[tuple[type[Exception], ...], Meaning], ...]
"""Exceptions -> meaning; the first row that fits wins."""

SHARED: Table = (
    ((RefusedError,), refused),
    ((CutShortError,), lambda _exc, _model: Failure(unreadable().error, passing=True)),
    ((UnreadableError,), lambda _exc, _model: unreadable()),
    ((httpx.TimeoutException, TimeoutError), lambda _exc, _model: timed_out()),
    ((httpx.UnsupportedProtocol, httpx.InvalidURL), lambda _exc, _model: Failure(unreachable().error)),
    ((httpx.TransportError, ssl.SSLError, OSError), lambda _exc, _model: unreachable()),
    ((ValueError, TypeError, LookupError, AttributeError, RecursionError), lambda _exc, _model: unreadable()),
    ((Exception,), lambda _exc, _model: Failure(LLMError())),
)
"""The end of every adapter's table: what the client raises, and what an SDK stumbles over in an answer."""


def meaning(exc: Exception, table: Table, model: str) -> Failure:
    """What `exc` means according to `table`, which ends in `SHARED`."""
    return next(read(exc, model) for kinds, read in table if isinstance(exc, kinds))
