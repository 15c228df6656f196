"""Responses of server-sent events: limited in number, kept alive, and ended by an event if they fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from graph_agent.api.bodies import json_body
from graph_agent.api.errors import busy, stream_error_body
from graph_agent.api.turn_admission import Places
from graph_agent.models.base import Frozen

KEEP_ALIVE_SECONDS = 15
"""The server sends a comment line this often as a keep-alive, so that no proxy closes the connection while nothing happens."""

SHORT_SECONDS = 0.5
"""A stream that ends sooner needs no keep-alive, and nothing that waits for its client or for the server to go away."""

Responses = dict[int | str, dict[str, Any]]
ERROR = "error"
"""The last event of a stream that failed; its data is the envelope of errors."""


class StreamPlaces(Places):
    """The places of the streams that are served at the same time, with a fair share for each user."""

    def __init__(self, limit: int, *, one_user: bool) -> None:
        super().__init__(one_user=one_user)
        self._limit = limit

    def require(self, user_id: str) -> None:
        """Raise `ServiceError` SERVICE_UNAVAILABLE if no place is free for the user."""
        if not self.has_room(user_id, self._limit):
            raise busy()


class EventStream(EventSourceResponse):
    """A response that occupies one of the `places` while it is sent. It is refused at once if none is free for the user.

    With `admitted` it is never refused: `StreamPlaces.require` was called before its turn was started.
    An exception of `messages` becomes the last event. When the server shuts down the stream may go on for `grace_seconds`.
    """

    def __init__(
        self,
        messages: AsyncIterator[bytes | ServerSentEvent],
        places: StreamPlaces,
        user_id: str,
        grace_seconds: float = 0,
        *,
        admitted: bool = False,
    ) -> None:
        super().__init__(
            _until_failure(messages),
            ping=KEEP_ALIVE_SECONDS,
            ping_message_factory=lambda: ServerSentEvent(comment="keep-alive", sep="\n"),
            shutdown_grace_period=grace_seconds,
        )
        self._places = places
        self._user_id = user_id
        self._admitted = admitted
        self._sending: asyncio.Task[None]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._admitted:
            self._places.require(self._user_id)
        self._places.take(self._user_id)
        # The three tasks that the base class starts beside it cost more than all events of a short turn.
        self._sending = asyncio.create_task(super()._stream_response(send))
        try:
            await asyncio.wait({self._sending}, timeout=SHORT_SECONDS)
            if self._sending.done():
                self._sending.result()
            else:
                await super().__call__(scope, receive, send)
        finally:
            await self._stop_sending()
            self._places.release(self._user_id)

    async def _stream_response(self, send: Send) -> None:  # noqa: ARG002 (the base class has it)
        """Go on with what `__call__` has begun."""
        try:
            await asyncio.wait({self._sending})
        finally:
            await self._stop_sending()
        self._sending.result()

    async def _stop_sending(self) -> None:
        if not self._sending.done():
            # Once, and not again while the source of the messages is closed.
            self._sending.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({self._sending})


def event(kind: str, data: dict[str, Any], event_id: str | None = None) -> ServerSentEvent:
    """Return an event whose data is JSON."""
    return ServerSentEvent(_encode(data), event=kind, id=event_id)


def stream_route(description: str, kinds: Iterable[str], others: Responses, *bodies: type[Frozen]) -> dict[str, Any]:
    """Return the options of a route that streams events of these kinds, may answer with `others`, and reads one of `bodies`.

    Every stream may end with an `ERROR`.
    """
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "event": {"enum": list(dict.fromkeys([*kinds, ERROR]))},
            "data": {"type": "string", "contentMediaType": "application/json"},
        },
        "required": ["event", "data"],
    }
    stream = {200: {"description": description, "content": {"text/event-stream": {"itemSchema": schema}}}}
    return {
        "response_class": Response,
        "responses": {**stream, **others},
        "openapi_extra": json_body(*bodies) if bodies else None,
    }


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


async def _until_failure(messages: AsyncIterator[bytes | ServerSentEvent]) -> AsyncIterator[bytes | ServerSentEvent]:
    try:
        async for message in messages:
            yield message
    except Exception as failure:
        # Without an id, so that a client that reconnects continues after the last real event.
        yield event(ERROR, stream_error_body(failure))
