"""A message and its answer, and the conversations.

POST /api/chat answers a message. POST /api/chat/stream and GET /api/decisions/{id}/events send a turn as server-sent events,
and POST /api/decisions/{id}/stop stops it. Every event except `progress` and `error` has an id, `DECISION:NUMBER`. A client
that sends it as Last-Event-ID, on either route, gets the events after it; no turn is run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import Annotated, TypeVar

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse, Response

from graph_agent.api.bodies import ERRORS_BY_ID, MESSAGES, IdInPath, MessageRequest, errors, id_in_query, json_body, read_model
from graph_agent.api.callers import AuthenticatedCaller
from graph_agent.api.decisions import log_of
from graph_agent.api.services import services
from graph_agent.api.sse import EventStream, Responses, event, stream_route
from graph_agent.api.turn_admission import ARRIVED_AT
from graph_agent.chat.answer import ChatAnswer, ChatReply, StartedTurn
from graph_agent.chat.conversations.reading import Conversation, ConversationPage
from graph_agent.chat.service import well_formed_id
from graph_agent.chat.stream import NumberedEvent
from graph_agent.models.decision import ConfirmationAnswer, ShownQuestion
from graph_agent.net.bearer_tokens import Caller
from graph_agent.turn.events import EventKind

router = APIRouter(prefix="/api")

T = TypeVar("T")

Limit = Annotated[int, Query(ge=1, le=200)]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,255}$",
        description="A request repeated with the same key and body gets the same answer.",
    ),
]
LastEventId = Annotated[
    str,
    Header(
        alias="Last-Event-ID",
        pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}:[0-9]{1,9}$",
        description="The id of the last event that was received.",
    ),
]

_stream_route = partial(
    stream_route,
    "The turn's events: state, model_call, progress, tool_call, receipt, and at the end decision or error.",
    [kind.value for kind in EventKind],
)
_ENDED: Responses = {204: {"description": "The turn has ended, and there is no event after Last-Event-ID."}}


@router.post(
    "/chat",
    tags=["chat"],
    response_model=ChatReply,
    responses=errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504),
    # Declared by hand, because the route reads the body itself: with a size limit, and without echoing it in errors.
    openapi_extra=json_body(*MESSAGES),
)
async def chat(request: Request, caller: AuthenticatedCaller, idempotency_key: IdempotencyKey = None) -> JSONResponse:
    """Answer one message. A failure of the model is a 200 as well; the decision says so."""
    # Read before the turn is admitted: a client that sends its body slowly must not take a place from others.
    sent = await read_model(request, MessageRequest)
    return await answered(start_turn(request, caller, sent, idempotency_key))


async def answered(starting: Awaitable[StartedTurn]) -> JSONResponse:
    """Return the reply of a turn that is started, also while the server shuts down."""
    return JSONResponse((await to_completion(_answer(starting))).reply_json())


async def to_completion(answering: Awaitable[T]) -> T:
    """Return the result of what starts a turn and awaits it, also while the server shuts down."""
    answer = asyncio.ensure_future(answering)
    try:
        return await asyncio.shield(answer)
    except asyncio.CancelledError:
        # Only a shutdown of the server cancels a request. It ends the turn, too, so that there is an answer.
        request_task = asyncio.current_task()
        assert request_task is not None
        request_task.uncancel()
        return await answer


async def _answer(starting: Awaitable[StartedTurn]) -> ChatAnswer:
    started = await starting
    return started if isinstance(started, ChatAnswer) else await started.result()


async def start_turn(request: Request, caller: Caller, sent: MessageRequest, idem_key: str | None) -> StartedTurn:
    """Start the turn of a message once it is admitted, or return the answer that it got before."""
    state = services(request)
    waited = waited_seconds(request)
    arrived_at = state.runtime.clock.monotonic() - waited
    return await state.turn_admission.start(
        caller.user_id,
        lambda: state.runtime.chat.start(
            caller.user_id,
            sent.content,
            conversation_id=sent.conversation_id,
            answers=ConfirmationAnswer(**dict(sent.answers)) if sent.answers else None,
            shown=ShownQuestion(**dict(sent.shown)) if sent.shown else None,
            idem_key=idem_key,
            arrived_at=arrived_at,
            roles=caller.roles,
            dry_run=sent.dry_run,
            time_zone=sent.time_zone,
            job=sent.job,
        ),
        waited=waited,
    )


def waited_seconds(request: Request) -> float:
    """Return for how long a request has waited since it arrived."""
    now = asyncio.get_running_loop().time()
    waited: float = now - getattr(request.state, ARRIVED_AT, now)
    return waited


@router.post(
    "/chat/stream",
    tags=["events"],
    **_stream_route({**_ENDED, **errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504)}, *MESSAGES),
)
async def chat_stream(
    request: Request, caller: AuthenticatedCaller, idempotency_key: IdempotencyKey = None, last_event_id: LastEventId = ""
) -> Response:
    """Answer one message as `POST /api/chat` does, and stream the events. The turn continues if the client disconnects."""
    stream = services(request).stream
    sent = await read_model(request, MessageRequest)
    if last_event_id:
        decision_id, after = _parse_event_id(last_event_id)
        return _event_stream(request, caller, decision_id, await stream.subscribe(decision_id, caller.user_id, after))
    decision_id, events = await start_streamed_turn(request, caller, sent, idempotency_key)
    return stream_of(request, caller, _messages(decision_id, events), admitted=True)


@router.get("/decisions/{decision_id}/events", tags=["events"], **_stream_route({**_ENDED, **ERRORS_BY_ID}))
async def decision_events(
    request: Request, caller: AuthenticatedCaller, decision_id: IdInPath, last_event_id: LastEventId = ""
) -> Response:
    """Stream the events of a decision: live while the turn runs, from its record afterwards."""
    decision_id = well_formed_id(decision_id)
    named, after = _parse_event_id(last_event_id) if last_event_id else (decision_id, 0)
    # The Last-Event-ID of another decision does not apply to this one.
    events = await services(request).stream.subscribe(decision_id, caller.reads, after if named == decision_id else 0)
    return _event_stream(request, caller, decision_id, events)


@router.post("/decisions/{decision_id}/stop", tags=["events"], status_code=204, response_class=Response, responses=ERRORS_BY_ID)
async def stop_turn(request: Request, caller: AuthenticatedCaller, decision_id: IdInPath) -> Response:
    """Stop a running turn of the caller; it ends as interrupted, and what it has done stays done.

    Nothing happens if it has ended. A turn that another process runs ends within three seconds.
    """
    decision_id = well_formed_id(decision_id)
    if not await services(request).runtime.chat.stop(decision_id, caller.user_id):
        # Raises the error for a decision that does not exist, or is another user's.
        await log_of(request).get_decision_trace(decision_id, user_id=caller.user_id)
    return Response(status_code=204)


async def start_streamed_turn(
    request: Request, caller: Caller, sent: MessageRequest, idem_key: str | None
) -> tuple[str, AsyncIterator[NumberedEvent]]:
    """Start the turn of a message, or find the answer that it got before; return the decision's id and the events.

    Without a place for one more subscriber the turn is not started, because its events could not be sent.
    """
    stream = services(request).stream
    services(request).streams.require(caller.user_id)
    started = await start_turn(request, caller, sent, idem_key)
    events = await stream.answered(started) if isinstance(started, ChatAnswer) else stream.follow(started)
    return started.decision_id, events


def _parse_event_id(event_id: str) -> tuple[str, int]:
    """Return the decision id and the number of an event id."""
    decision_id, _, number = event_id.partition(":")
    return decision_id.lower(), int(number)


def _event_stream(request: Request, caller: Caller, decision_id: str, events: AsyncIterator[NumberedEvent] | None) -> Response:
    return Response(status_code=204) if events is None else stream_of(request, caller, _messages(decision_id, events))


def stream_of(request: Request, caller: Caller, messages: AsyncIterator[bytes], *, admitted: bool = False) -> Response:
    """Return a response that streams `messages`; unless it is `admitted`, only if there is a place for one more subscriber."""
    state = services(request)
    # On shutdown the running turns are ended first, and their last events are still sent.
    grace_seconds = state.runtime.engine.config.timeout_seconds
    return EventStream(messages, state.streams, caller.user_id, grace_seconds, admitted=admitted)


async def _messages(decision_id: str, events: AsyncIterator[NumberedEvent]) -> AsyncIterator[bytes]:
    """Yield the messages of the events; those that are there at the same time are sent at once."""
    ready = b""
    async for numbered in events:
        # Without an id the client continues after the last event that has one.
        event_id = None if numbered.number is None else f"{decision_id}:{numbered.number}"
        ready += event(numbered.event.kind, numbered.event.data, event_id).encode()
        if not numbered.more:
            yield ready
            ready = b""


@router.get("/conversations", tags=["conversations"], responses=ERRORS_BY_ID)
async def conversations(
    request: Request,
    caller: AuthenticatedCaller,
    limit: Limit = 50,
    before: Annotated[str | None, id_in_query("The id of the last conversation of the previous page.")] = None,
) -> ConversationPage:
    """List the caller's conversations, the last used first."""
    return await services(request).runtime.chat.conversations(caller.user_id, limit, before)


@router.get("/conversations/{conversation_id}", tags=["conversations"], responses=ERRORS_BY_ID)
async def conversation(
    request: Request,
    caller: AuthenticatedCaller,
    conversation_id: IdInPath,
    limit: Limit = 100,
    before: Annotated[
        str | None, id_in_query("The id of the oldest message that the client has: the page ends before it.")
    ] = None,
) -> Conversation:
    """Return one conversation with its latest messages, oldest first."""
    return await services(request).runtime.chat.conversation(caller.user_id, conversation_id, limit, before)
