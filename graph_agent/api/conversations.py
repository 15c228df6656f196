"""GET /api/conversations: list the caller's conversations, or read one with its messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from graph_agent.api.bodies import IdInPath, errors, id_in_query
from graph_agent.api.services import AuthenticatedCaller, services
from graph_agent.chat.conversations.reading import Conversation, ConversationPage

router = APIRouter(prefix="/api/conversations", tags=["conversations"])


Limit = Annotated[int, Query(ge=1, le=200)]


@router.get("", responses=errors(400, 401, 403, 404, 422, 503))
async def conversations(
    request: Request,
    caller: AuthenticatedCaller,
    limit: Limit = 50,
    before: Annotated[str | None, id_in_query("The id of the last conversation of the previous page.")] = None,
) -> ConversationPage:
    """List the caller's conversations, the last used first."""
    return await services(request).runtime.chat.conversations(caller.user_id, limit, before)


@router.get("/{conversation_id}", responses=errors(400, 401, 403, 404, 422, 503))
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
