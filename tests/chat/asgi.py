"""A request that a server of these tests reads before it answers it, and an answer that does not arrive."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Receive = Callable[[], Awaitable[Any]]


async def read_body(receive: Receive) -> tuple[bytes, Receive]:
    """Return the body of a request, and a `receive` that gives it once more, and then what follows it."""
    body = b""
    while (message := await receive()).get("more_body"):
        body += message["body"]
    body += message.get("body", b"")
    bodies = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Any:
        # Then the end of the connection, which the server waits for.
        return bodies.pop() if bodies else await receive()

    return body, again


async def lose(_: Any) -> None:
    """Be the `send` of an answer that does not arrive."""
