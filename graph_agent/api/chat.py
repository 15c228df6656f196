"""POST /api/chat: one message in, one governed decision out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from starlette.responses import JSONResponse

from graph_agent.api.auth import AuthenticatedCaller
from graph_agent.api.body import invalid, read_object
from graph_agent.api.schemas import ChatReply, ChatRequest, errors
from graph_agent.chat.service import ChatAnswer

router = APIRouter(prefix="/api", tags=["chat"])

_FIELDS = frozenset(ChatRequest.model_fields)
MESSAGE_BODY = {"required": True, "content": {"application/json": {"schema": ChatRequest.model_json_schema()}}}

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]{1,255}$",
        description="The same key with the same body gets the same answer, however often it is sent.",
    ),
]


@router.post(
    "/chat",
    response_model=ChatReply,
    responses=errors(400, 401, 403, 404, 409, 413, 415, 422, 429, 503),
    # The body is read by hand: bounded while it arrives, and never repeated in an error.
    openapi_extra={"requestBody": MESSAGE_BODY},
)
async def chat(request: Request, caller: AuthenticatedCaller, idempotency_key: IdempotencyKey = None) -> JSONResponse:
    """Answer one message. A model that fails is a 200 too: its decision says so."""
    state = request.app.state
    with state.admission.turn():
        content, conversation_id = read_message(await read_object(request))
        answer = await state.runtime.chat.send(
            caller.user_id, content, conversation_id=conversation_id, idem_key=idempotency_key
        )
    return JSONResponse(chat_reply(answer))


def chat_reply(answer: ChatAnswer) -> dict[str, Any]:
    """A `ChatReply` as JSON."""
    return {name: value for name, value in answer.to_json().items() if name in ChatReply.model_fields}


def read_message(body: dict[str, Any]) -> tuple[str, str | None]:
    """The two fields by type only: what a message may be is the chat's business, and logged there."""
    if not body.keys() <= _FIELDS:
        raise invalid("The request body has a field that is not known.")
    content, conversation_id = body.get("content"), body.get("conversation_id")
    if not isinstance(content, str):
        raise invalid("The field 'content' must be given, as text.")
    if conversation_id is not None and not isinstance(conversation_id, str):
        raise invalid("The field 'conversation_id' must be text.")
    return content, conversation_id
