"""POST /api/chat/stream and GET /api/decisions/{id}/events: a turn as server-sent events.

Every event but `error` has an id, `DECISION:NUMBER`. Sent back as Last-Event-ID it goes on behind that event, on either route,
and nothing is run again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from graph_agent.api.admission import Admission
from graph_agent.api.auth import AuthenticatedCaller
from graph_agent.api.body import read_object
from graph_agent.api.chat import MESSAGE_BODY, IdempotencyKey, read_message
from graph_agent.api.decisions import AUDITOR
from graph_agent.api.errors import told_error
from graph_agent.api.following import NumberedEvent, TurnEvents
from graph_agent.api.schemas import IdInPath, errors
from graph_agent.chat.service import ChatAnswer, well_formed_id
from graph_agent.turn.events import EventKind

router = APIRouter(prefix="/api", tags=["events"])

KEEP_ALIVE_SECONDS = 15
"""How often a comment is sent, so that nothing on the way takes a thinking model for a dead connection."""

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
    204: {"description": "Nothing stands behind the event that Last-Event-ID names: the turn has ended."},
}


@router.post(
    "/chat/stream",
    response_class=Response,
    responses={**_STREAM, **errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503)},
    openapi_extra={"requestBody": MESSAGE_BODY},
)
async def chat_stream(
    request: Request,
    caller: AuthenticatedCaller,
    idempotency_key: IdempotencyKey = None,
    last_event_id: LastEventId = "",
) -> Response:
    """Answer one message as `POST /api/chat` does, and tell how. A turn once begun goes on whether it is watched or not."""
    state = request.app.state
    events: TurnEvents = state.events
    content, conversation_id = read_message(await read_object(request))
    if last_event_id:
        decision_id, after = _place(last_event_id)
        return _streamed(request, decision_id, await events.of(decision_id, caller.user_id, after))
    with ExitStack() as admitted:
        admitted.enter_context(state.admission.turn())
        started = await state.runtime.chat.start(
            caller.user_id, content, conversation_id=conversation_id, idem_key=idempotency_key
        )
        if isinstance(started, ChatAnswer):
            return _streamed(request, started.decision_id, await events.answered(started))
        held = admitted.pop_all()
    started.work.add_done_callback(lambda _: held.close())
    return _streamed(request, started.live.decision_id, events.follow(started.live))


@router.get(
    "/decisions/{decision_id}/events",
    response_class=Response,
    responses={**_STREAM, **errors(400, 401, 403, 404, 422, 503)},
)
async def decision_events(
    request: Request, caller: AuthenticatedCaller, decision_id: IdInPath, last_event_id: LastEventId = ""
) -> Response:
    """How a decision comes about, while it does; of one that stands, how it came about."""
    decision_id = well_formed_id(decision_id)
    named, after = _place(last_event_id) if last_event_id else (decision_id, 0)
    reach = None if AUDITOR in caller.scopes else caller.user_id
    events: TurnEvents = request.app.state.events
    # What was heard of another decision says nothing of this one.
    return _streamed(request, decision_id, await events.of(decision_id, reach, after if named == decision_id else 0))


def _place(event_id: str) -> tuple[str, int]:
    """The decision and the number that an event's id is made of."""
    decision_id, _, number = event_id.partition(":")
    return decision_id.lower(), int(number)


def _streamed(request: Request, decision_id: str, events: AsyncIterator[NumberedEvent] | None) -> Response:
    if events is None:
        return Response(status_code=204)
    state = request.app.state
    return _Stream(_messages(decision_id, events), state.watchers, state.runtime.engine.config.timeout_seconds)


class _Stream(EventSourceResponse):
    """A stream that has its place among the others from its first byte to its last."""

    def __init__(self, messages: AsyncIterator[ServerSentEvent], watchers: Admission, turn_seconds: float) -> None:
        super().__init__(
            messages,
            ping=KEEP_ALIVE_SECONDS,
            ping_message_factory=lambda: ServerSentEvent(comment="keep-alive"),
            # A server that shuts down lets its running turns end, and tells of it.
            shutdown_grace_period=turn_seconds,
        )
        self._watchers = watchers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._watchers.turn():
            await super().__call__(scope, receive, send)


async def _messages(decision_id: str, events: AsyncIterator[NumberedEvent]) -> AsyncIterator[ServerSentEvent]:
    try:
        async for numbered in events:
            event = numbered.event
            yield ServerSentEvent(_json(event.data), event=event.kind, id=f"{decision_id}:{numbered.number}")
    except Exception as failure:
        # Without an id: whoever comes back goes on behind what was really told.
        yield ServerSentEvent(_json(told_error(failure)), event=EventKind.ERROR)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
