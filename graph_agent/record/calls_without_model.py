"""The earlier calls of a user in conversations that have calls without a model: those of an MCP client, of an agent, by hand.

Such a conversation ends when its client likes: with a session, a thread, a command. Facts about what was called before would
end with it, so they are those of all such conversations of the user.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, bindparam, select

from graph_agent.models.decision import CONFIRMATION_LIFETIME
from graph_agent.models.record import NO_MODEL, CallDisposition
from graph_agent.record.tables import decision_logs, tool_invocation_logs

REMEMBERED: Final = timedelta(hours=24)
"""The time in which an earlier call counts."""

_log, _call = decision_logs.c, tool_invocation_logs.c
_IS_CALL = _log.user_id == bindparam("user"), _log.model == NO_MODEL
_BELONGS = select(_log.decision_id).where(*_IS_CALL, _log.conversation_id == bindparam("conversation")).limit(1)
_CALLED = (
    select(_call.tool_name)
    .join(decision_logs, _log.decision_id == _call.decision_id)
    .where(_log.user_id == bindparam("user"), _log.created_at >= bindparam("since"), _log.decision_id != bindparam("without"))
    # A call that its user has confirmed is made by another decision of the conversation.
    .where(_log.conversation_id.in_(select(_log.conversation_id).where(*_IS_CALL, _log.created_at >= bindparam("asked_since"))))
    .where(_call.disposition == CallDisposition.EXECUTED)
    .distinct()
)


def find_called_without_model(
    connection: Connection, user_id: str, conversation_id: str, now: datetime, without: str
) -> set[str]:
    """Return the tools that were called, whatever became of the call; none for a conversation that belongs to a model.

    The calls of the decision `without` are left out.
    """
    if connection.execute(_BELONGS, {"user": user_id, "conversation": conversation_id}).first() is None:
        return set()
    since = now - REMEMBERED
    given = {"user": user_id, "since": since, "asked_since": since - CONFIRMATION_LIFETIME, "without": without}
    return set(connection.execute(_CALLED, given).scalars())
