"""`last` in the place of the id of a conversation: the newest one of the user.

Apart from that of a decision, because a command that reads the log needs nothing that runs turns.
"""

from __future__ import annotations

from graph_agent.chat.service import ChatService
from graph_agent.cli.last import LAST
from graph_agent.cli.running import Run
from graph_agent.errors import ServiceError, ServiceErrorCode


def conversation_id_of(given: str | None, chat: ChatService, user: str, run: Run) -> str | None:
    """Return the id that a user gave, or that of the user's newest conversation for `last`. Raises `ServiceError`."""
    return run(newest_conversation(chat, user)) if given == LAST else given


async def newest_conversation(chat: ChatService, user: str) -> str:
    """Return the id of the user's newest conversation. Raises `ServiceError` CONVERSATION_NOT_FOUND."""
    page = await chat.conversations(user, limit=1)
    if not page.conversations:
        raise ServiceError(ServiceErrorCode.CONVERSATION_NOT_FOUND, "There is no conversation to continue yet.")
    return page.conversations[0].id
