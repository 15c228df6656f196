"""The HTTP client of every adapter, and the translation of its errors.

By itself an SDK chooses between httpx and aiohttp by what is installed, reads bodies of any size, guesses encodings, follows
redirects with the key in a header, and loses the status if an error body is not what it expects. So Google's SDK gets this
client, whose response hook raises before the SDK sees the response. What passes has the status 200 and is UTF-8 of a bounded
size.
"""

from __future__ import annotations

import asyncio
import functools
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import httpx

from graph_agent.errors import LLMError
from graph_agent.llm import provider_errors
from graph_agent.llm.provider_errors import Failure, StatusError, TruncatedBodyError, UnreadableBodyError
from graph_agent.net.loop_throttle import LoopThrottle

MAX_BODY_BYTES = 4 * 1024 * 1024
"""A response of `max_tokens` has a few kilobytes; signatures and grounding make it tens. A larger one is an error."""

PROBE_SECONDS = 0.8
"""The time limit of the request for the list of models."""

_COMPRESSED = frozenset({"gzip", "x-gzip", "deflate"})
"""The content encodings that are decompressed. Only they are offered to the server."""

MAX_CONNECTIONS = 64
"""Calls in flight at the same time, for one adapter in one event loop. Further calls wait."""


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the one TLS context of the process: loading the certificates takes longer than a call."""
    return httpx.create_ssl_context()


def open_client(throttle: LoopThrottle | None = None, headers: dict[str, str] | None = None) -> httpx.AsyncClient:
    """Open a client for one event loop. It takes proxies from the environment.

    Each response waits for `throttle`, if there is one, before it is parsed. A response that must not be parsed raises
    `StatusError`, `TruncatedBodyError` or `UnreadableBodyError`.
    """

    async def on_response(response: httpx.Response) -> None:
        if response.status_code != 200:
            raise await _status_error(response)
        body = await _read(response)
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise UnreadableBodyError from exc
        response.encoding = "utf-8"  # JSON is UTF-8, whatever the content type claims
        if throttle is not None:
            await throttle.wait()

    return httpx.AsyncClient(
        headers={"accept-encoding": "gzip, deflate", **(headers or {})},
        verify=tls_context(),
        timeout=None,  # each request has its own
        follow_redirects=False,
        limits=httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONNECTIONS),
        event_hooks={"response": [on_response]},
    )


async def _status_error(response: httpx.Response) -> StatusError:
    text = ""
    with suppress(TruncatedBodyError, UnreadableBodyError):
        text = (await _read(response)).decode(errors="replace")
    return StatusError.read(response.status_code, text, response.headers)


async def _read(response: httpx.Response) -> bytes:
    stream = response.stream
    assert isinstance(stream, httpx.AsyncByteStream)
    # Without the header, httpx does not decompress a second time, which it does without a limit.
    encoding = response.headers.pop("content-encoding", "")
    response.stream = _BoundedStream(stream, compressed=encoding.strip().lower() in _COMPRESSED)
    try:
        return await response.aread()
    except (httpx.RemoteProtocolError, httpx.ReadError) as exc:
        raise TruncatedBodyError from exc
    except zlib.error as exc:
        raise UnreadableBodyError from exc


class _BoundedStream(httpx.AsyncByteStream):
    """A body that is decompressed up to `MAX_BODY_BYTES`: a few kilobytes can decompress to gigabytes."""

    def __init__(self, stream: httpx.AsyncByteStream, *, compressed: bool) -> None:
        self._stream = stream
        self._compressed = compressed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        decompressor: zlib._Decompress | None = None
        left = MAX_BODY_BYTES
        async for chunk in self._stream:
            piece = chunk
            if self._compressed and chunk:
                decompressor = decompressor or _decompressor(chunk)
                piece = decompressor.decompress(chunk, left + 1)
            left -= len(piece)
            if left < 0:
                raise UnreadableBodyError
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _decompressor(first_chunk: bytes) -> zlib._Decompress:
    # The first byte shows the format: gzip, zlib, or deflate without a header, which some servers send as `deflate`.
    has_header = first_chunk[0] == 0x1F or first_chunk[0] & 0x0F == 8
    return zlib.decompressobj(47 if has_header else -15)


_TRANSLATIONS: tuple[tuple[tuple[type[Exception], ...], Callable[[Any], Failure]], ...] = (
    ((StatusError,), provider_errors.failure_for_status),
    ((TruncatedBodyError,), lambda _: provider_errors.unreadable_failure(retryable=True)),
    ((httpx.TimeoutException, TimeoutError), lambda _: provider_errors.timeout_failure()),
    ((httpx.UnsupportedProtocol, httpx.InvalidURL), lambda _: provider_errors.unreachable_failure(retryable=False)),
    ((httpx.TransportError, ssl.SSLError, OSError), lambda _: provider_errors.unreachable_failure(retryable=True)),
    ((json.JSONDecodeError,), lambda _: provider_errors.not_json_failure()),
    # `UnreadableBodyError`, and what an SDK raises that cannot handle an unexpected response.
    ((ValueError, TypeError, LookupError, AttributeError, RecursionError), lambda _: provider_errors.unreadable_failure()),
    ((Exception,), lambda _: Failure(LLMError())),
)
"""Exception types -> the failure. The first row that matches is used; the last one always does.

Errors of the SDKs for a status have no row: the response hook has raised `StatusError` before the SDK sees the response.
"""


def translate_error(exc: Exception) -> Failure:
    return next(translation(exc) for types, translation in _TRANSLATIONS if isinstance(exc, types))


async def served_models(url: str, headers: dict[str, str]) -> list[str]:
    """Return the names in the list of models at `url`; an empty list if there is none within `PROBE_SECONDS`."""
    with suppress(Exception):
        async with asyncio.timeout(PROBE_SECONDS), open_client(headers=headers) as client:
            body = (await client.get(url)).json()
            listed = body.get("data") or body.get("models") or []
            return [str(model.get("id") or model["name"]).removeprefix("models/") for model in listed]
    return []
