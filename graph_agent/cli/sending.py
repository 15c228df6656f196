"""Sending of one message under a key, so that a repetition never does anything twice."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import ChatService
from graph_agent.errors import ServiceError, ServiceErrorCode

_WAITS = (0.5, 1.0, 2.0)
"""Seconds before each repetition."""
_REPEATED = frozenset({ServiceErrorCode.OUTCOME_UNKNOWN, ServiceErrorCode.REQUEST_IN_PROGRESS})


async def send_with_key(chat: ChatService, user_id: str, content: str | None, **fields: Any) -> ChatAnswer:
    """Send a message under a new key; ask again with it while its outcome is not known. `fields` are those of `send`."""
    key = str(uuid.uuid4())
    for wait in _WAITS:
        try:
            return await chat.send(user_id, content, idem_key=key, **fields)
        except ServiceError as exc:
            if exc.code not in _REPEATED:
                raise
        await asyncio.sleep(wait)
    return await chat.send(user_id, content, idem_key=key, **fields)
