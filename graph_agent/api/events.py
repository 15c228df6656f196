"""POST /api/chat/stream and GET /api/decisions/{id}/events: a turn as server-sent events.

Every event except `error` has an id, `DECISION:NUMBER`. A client that sends it as Last-Event-ID, on either route, gets the
events after it; no turn is run again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from graph_agent.api.auth import AuthenticatedCaller
from graph_agent.api.body import read_object
from graph_agent.api.chat import MESSAGE_BODY, IdempotencyKey, read_message, start_turn
from graph_agent.api.decisions import AUDITOR
from graph_agent.api.errors import busy, stream_error_body
from graph_agent.api.schemas import IdInPath, errors
from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import well_formed_id
from graph_agent.chat.stream import NumberedEvent, TurnStream
from graph_agent.turn.events import EventKind

router = APIRouter(prefix="/api", tags=["events"])

KEEP_ALIVE_SECONDS = 15
"""The server sends a comment line this often as a keep-alive, so that no proxy closes the connection while the model works."""

LastEventId = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:[0-9]{1,9}$",
        description="The id of the last event that was received.",
    ),
]

_EVENT = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "event": {"enum": [kind.value for kind in EventKind]},
        "data": {"type": "string", "contentMediaType": "application/json"},
    },
    "required": ["event", "data"],
}

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The turn's events: state, model_call, tool_call, receipt, and at the end decision or error.",
        "content": {"text/event-stream": {"itemSchema": _EVENT}},
    },
    204: {"description": "The turn has ended, and there is no event after Last-Event-ID."},
}


@router.post(
    "/chat/stream",
    response_class=Response,
    responses={**_STREAM, **errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504)},
    openapi_extra={"requestBody": MESSAGE_BODY},
)
async def chat_stream(
    request: Request,
    caller: AuthenticatedCaller,
    idempotency_key: IdempotencyKey = None,
    last_event_id: LastEventId = "",
) -> Response:
    """Answer one message as `POST /api/chat` does, and stream the events. The turn continues if the client disconnects."""
    state = request.app.state
    stream: TurnStream = state.stream
    sent = read_message(await read_object(request))
    if last_event_id:
        decision_id, after = _parse_event_id(last_event_id)
        return _event_stream(request, decision_id, await stream.subscribe(decision_id, caller.user_id, after))
    started = await start_turn(state, caller, sent, idempotency_key)
    if isinstance(started, ChatAnswer):
        return _event_stream(request, started.decision_id, await stream.answered(started))
    return _event_stream(request, started.decision_id, stream.follow(started))


@router.get(
    "/decisions/{decision_id}/events",
    response_class=Response,
    responses={**_STREAM, **errors(400, 401, 403, 404, 422, 503)},
)
async def decision_events(
    request: Request, caller: AuthenticatedCaller, decision_id: IdInPath, last_event_id: LastEventId = ""
) -> Response:
    """Stream the events of a decision: live while the turn runs, from its record afterwards."""
    decision_id = well_formed_id(decision_id)
    named, after = _parse_event_id(last_event_id) if last_event_id else (decision_id, 0)
    owner = None if AUDITOR in caller.scopes else caller.user_id
    stream: TurnStream = request.app.state.stream
    # The Last-Event-ID of another decision does not apply to this one.
    return _event_stream(request, decision_id, await stream.subscribe(decision_id, owner, after if named == decision_id else 0))


def _parse_event_id(event_id: str) -> tuple[str, int]:
    """Return the decision id and the number of an event id."""
    decision_id, _, number = event_id.partition(":")
    return decision_id.lower(), int(number)


def _event_stream(request: Request, decision_id: str, events: AsyncIterator[NumberedEvent] | None) -> Response:
    return Response(status_code=204) if events is None else stream_of(request, _messages(decision_id, events))


def stream_of(request: Request, messages: AsyncIterator[ServerSentEvent]) -> Response:
    """Return a response that streams `messages`, if the server has a place for one more subscriber."""
    state = request.app.state
    return _Stream(messages, state.streams, state.runtime.engine.config.timeout_seconds)


class _Stream(EventSourceResponse):
    """A stream that takes one of `streams` from its first byte to its last. It is refused at once if none is free."""

    def __init__(self, messages: AsyncIterator[ServerSentEvent], streams: asyncio.Semaphore, turn_seconds: float) -> None:
        super().__init__(
            messages,
            ping=KEEP_ALIVE_SECONDS,
            ping_message_factory=lambda: ServerSentEvent(comment="keep-alive", sep="\n"),
            # On shutdown the running turns are ended first, and their last events are still sent.
            shutdown_grace_period=turn_seconds,
        )
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._streams.locked():
            raise busy()
        async with self._streams:
            await super().__call__(scope, receive, send)


async def _messages(decision_id: str, events: AsyncIterator[NumberedEvent]) -> AsyncIterator[ServerSentEvent]:
    try:
        async for numbered in events:
            event = numbered.event
            yield ServerSentEvent(_json(event.data), event=event.kind, id=f"{decision_id}:{numbered.number}")
    except Exception as failure:
        # Without an id, so that a client that reconnects continues after the last real event.
        yield ServerSentEvent(_json(stream_error_body(failure)), event=EventKind.ERROR)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
