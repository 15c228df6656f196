"""POST /api/chat: answer one message. GET /api/conversations: list the caller's conversations, or read one."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import JSONResponse

from graph_agent.api.acceptor import WAITED
from graph_agent.api.bodies import MESSAGE_BODIES, IdInPath, MessageRequest, errors, id_in_query, json_body, read_model
from graph_agent.api.services import AuthenticatedCaller, services
from graph_agent.chat.answer import ChatAnswer, ChatReply, StartedTurn
from graph_agent.chat.conversations.reading import Conversation, ConversationPage
from graph_agent.models.decision import ConfirmationAnswer, ShownQuestion
from graph_agent.net.bearer_tokens import Caller

router = APIRouter(prefix="/api")


IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,255}$",
        description="A request repeated with the same key and body gets the same answer.",
    ),
]


@router.post(
    "/chat",
    tags=["chat"],
    response_model=ChatReply,
    responses=errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504),
    # Declared by hand, because the route reads the body itself: with a size limit, and without echoing it in errors.
    openapi_extra=json_body(*MESSAGE_BODIES),
)
async def chat(request: Request, caller: AuthenticatedCaller, idempotency_key: IdempotencyKey = None) -> JSONResponse:
    """Answer one message. A failure of the model is a 200 as well; the decision says so."""
    # Read before the turn is admitted: a client that sends its body slowly must not take a place from others.
    sent = await read_model(request, MessageRequest)
    answering = asyncio.ensure_future(_answer(request, caller, sent, idempotency_key))
    try:
        answer = await asyncio.shield(answering)
    except asyncio.CancelledError:
        # Only a shutdown of the server cancels a request. It ends the turn, too, so that there is an answer.
        request_task = asyncio.current_task()
        assert request_task is not None
        request_task.uncancel()
        answer = await answering
    return JSONResponse(answer.reply_json())


async def _answer(request: Request, caller: Caller, sent: MessageRequest, idem_key: str | None) -> ChatAnswer:
    started = await start_turn(request, caller, sent, idem_key)
    return started if isinstance(started, ChatAnswer) else await started.result()


async def start_turn(request: Request, caller: Caller, sent: MessageRequest, idem_key: str | None) -> StartedTurn:
    """Start the turn of a message once it is admitted, or return the answer that it got before."""
    state = services(request)
    waited: float | None = getattr(request.state, WAITED, None)
    arrived_at = state.runtime.clock.monotonic() - (waited or 0.0)
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
        ),
        has_waited=waited is not None,
    )


Limit = Annotated[int, Query(ge=1, le=200)]


@router.get("/conversations", tags=["conversations"], responses=errors(400, 401, 403, 404, 422, 503))
async def conversations(
    request: Request,
    caller: AuthenticatedCaller,
    limit: Limit = 50,
    before: Annotated[str | None, id_in_query("The id of the last conversation of the previous page.")] = None,
) -> ConversationPage:
    """List the caller's conversations, the last used first."""
    return await services(request).runtime.chat.conversations(caller.user_id, limit, before)


@router.get("/conversations/{conversation_id}", tags=["conversations"], responses=errors(400, 401, 403, 404, 422, 503))
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
