"""POST /api/chat: answer one message."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse

from graph_agent.api.acceptor import WAITED
from graph_agent.api.body import invalid, read_object
from graph_agent.api.schemas import AnswerRequest, Answers, ChatReply, ChatRequest, DryRunRequest, Shown, errors, json_body
from graph_agent.api.services import AuthenticatedCaller, services
from graph_agent.chat.answer import ChatAnswer
from graph_agent.models.decision import ConfirmationAnswer, ShownQuestion
from graph_agent.net.bearer_tokens import Caller
from graph_agent.turn.handle import TurnHandle

router = APIRouter(prefix="/api", tags=["chat"])

_FIELDS = frozenset({*ChatRequest.model_fields, *DryRunRequest.model_fields})
MESSAGE_BODY = json_body(ChatRequest, AnswerRequest, DryRunRequest)

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
    response_model=ChatReply,
    responses=errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 504),
    # Declared by hand, because the route reads the body itself: with a size limit, and without echoing it in errors.
    openapi_extra=MESSAGE_BODY,
)
async def chat(request: Request, caller: AuthenticatedCaller, idempotency_key: IdempotencyKey = None) -> JSONResponse:
    """Answer one message. A failure of the model is a 200 as well; the decision says so."""
    # Read before the turn is admitted: a client that sends its body slowly must not take a place from others.
    sent = read_message(await read_object(request))
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


async def _answer(request: Request, caller: Caller, sent: ParsedMessage, idem_key: str | None) -> ChatAnswer:
    started = await start_turn(request, caller, sent, idem_key)
    return started if isinstance(started, ChatAnswer) else await started.result()


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """The fields of a request with the right types. The chat service checks their contents, and logs what it refuses."""

    content: str | None
    conversation_id: str | None
    answers: ConfirmationAnswer | None
    shown: ShownQuestion | None = None
    dry_run: bool = False


async def start_turn(
    request: Request, caller: Caller, sent: ParsedMessage, idem_key: str | None
) -> TurnHandle[ChatAnswer] | ChatAnswer:
    """Start the turn of a message once it is admitted, or return the answer that it got before."""
    state = services(request)
    admission = state.turn_admission
    chat_service = state.runtime.chat
    waited: float | None = getattr(request.state, WAITED, None)
    arrived_at = state.runtime.clock.monotonic() - (waited or 0.0)
    return await admission.start(
        caller.user_id,
        lambda: chat_service.start(
            caller.user_id,
            sent.content,
            conversation_id=sent.conversation_id,
            answers=sent.answers,
            shown=sent.shown,
            idem_key=idem_key,
            arrived_at=arrived_at,
            roles=caller.roles,
            dry_run=sent.dry_run,
        ),
        has_waited=waited is not None,
    )


def read_message(body: dict[str, Any]) -> ParsedMessage:
    """Return the fields of a request. Raises `ServiceError` VALIDATION_ERROR for an unknown field or a wrong type."""
    if not body.keys() <= _FIELDS:
        raise invalid("The request body has an unknown field.")
    content, conversation_id, answers = (body.get(name) for name in ("content", "conversation_id", "answers"))
    if (content is None and answers is None) or (content is not None and not isinstance(content, str)):
        raise invalid("The field 'content' must be given, as text, unless 'answers' is.")
    if conversation_id is not None and not isinstance(conversation_id, str):
        raise invalid("The field 'conversation_id' must be text.")
    if not isinstance(dry_run := body.get("dry_run", False), bool):
        raise invalid("The field 'dry_run' must be true or false.")
    read = None if answers is None else _read_answer(answers)
    return ParsedMessage(content, conversation_id, read, read_shown(body.get("shown")), dry_run)


def read_shown(shown: Any) -> ShownQuestion | None:
    """Return the question that a client shows, if it says so. Raises `ServiceError` VALIDATION_ERROR."""
    try:
        return None if shown is None else ShownQuestion.model_validate(Shown.model_validate(shown, strict=True).model_dump())
    except ValidationError as exc:
        raise invalid("The field 'shown' must be {\"pending_action\": ID or null}.") from exc


def _read_answer(answers: Any) -> ConfirmationAnswer:
    try:
        return ConfirmationAnswer.model_validate(Answers.model_validate(answers, strict=True).model_dump())
    except ValidationError as exc:
        raise invalid('The field \'answers\' must be {"pending_action": ID, "yes": true or false}.') from exc
