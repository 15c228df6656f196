"""Requests with small answers, and the HTTP transport that connects to the addresses that were checked.

If the check and the connection each looked the name up, a name server could give a public address to the first one and a
private one to the second (DNS rebinding). The Host header and the name in TLS stay those of the URL.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any
from urllib.request import getproxies

import httpcore2
import httpx2

from graph_agent.net.addresses import allowed_addresses, require_allowed_host


def checked_transport() -> httpx2.AsyncHTTPTransport | None:
    """Return the transport of a client; None behind a proxy, which looks names up itself."""
    return _CheckedTransport() if getproxies().keys().isdisjoint(("http", "https", "all")) else None


async def fetch(
    url: str,
    *,
    seconds: float,
    max_bytes: int,
    form: dict[str, str] | None = None,
    content: bytes | None = None,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> tuple[int, bytes]:
    """Return the status and the body of an answer; a form or a content is posted. Redirects are not followed.

    Raises `httpx2.HTTPError`, `httpx2.InvalidURL`, `OSError` (`TimeoutError` too), and `ValueError` for more than `max_bytes`.
    """
    headers = {"Accept": "application/json, */*;q=0.1", "Accept-Encoding": "identity", **headers}
    method = "GET" if form is None and content is None else "POST"
    async with asyncio.timeout(seconds):
        await asyncio.to_thread(require_allowed_host, url)
        # Half of the time, so that a second address can be tried.
        timeout = httpx2.Timeout(seconds, connect=seconds / 2)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=timeout, transport=checked_transport()) as client,
            client.stream(method, url, data=form, content=content) as response,
        ):
            body = bytearray()
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > max_bytes:
                    raise ValueError("the answer is too long")
    return response.status_code, bytes(body)


@cache
def _tls_context() -> ssl.SSLContext:
    # Reading the certificates takes 20 ms.
    return httpx2.create_ssl_context()


class _Backend(httpcore2.AnyIOBackend):
    async def connect_tcp(self, host: str, *arguments: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
        failure: Exception | None = None
        for address in await asyncio.to_thread(_lookup, host):
            try:
                return await super().connect_tcp(address, *arguments, **options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as exc:
                failure = exc
        raise failure or httpcore2.ConnectError("the host has no address")


def _lookup(host: str) -> list[str]:
    try:
        return allowed_addresses(host)
    except (socket.gaierror, UnicodeError) as exc:
        raise httpcore2.ConnectError("the host cannot be looked up") from exc


class _CheckedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self) -> None:
        self._pool = httpcore2.AsyncConnectionPool(ssl_context=_tls_context(), network_backend=_Backend())
