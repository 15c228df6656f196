"""The comparison of turns and messages with the decisions of the record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from pydantic_core import from_json
from sqlalchemy import Connection, Text, case, or_, select, type_coerce

from graph_agent.chat.conversations.tables import Role, TurnState, conversations, messages, turns
from graph_agent.db import Database, read_pages
from graph_agent.record.tables import CLOSED, decision_logs

_DECISION = decision_logs.c
_RECORDED = case((messages.c.role == Role.USER, _DECISION.message), else_=_DECISION.response_text)
# As text: what was changed by hand may not be JSON any more.
_ANSWERS = (
    select(turns.c.id, type_coerce(turns.c.answer, Text), _DECISION.response_text)
    .join(decision_logs, _DECISION.decision_id == turns.c.id)
    .where(CLOSED)
)
_DIFFERENCES = {
    "its turn is that of another user or conversation": select(turns.c.id)
    .join(decision_logs, _DECISION.decision_id == turns.c.id)
    .where(or_(turns.c.user_id != _DECISION.user_id, turns.c.conversation_id != _DECISION.conversation_id)),
    "its conversation is that of another user": select(turns.c.id).where(
        ~select(conversations.c.id)
        .where(conversations.c.id == turns.c.conversation_id, conversations.c.user_id == turns.c.user_id)
        .exists()
    ),
    "a message of its turn is not the recorded one": select(messages.c.decision_id)
    .join(decision_logs, _DECISION.decision_id == messages.c.decision_id)
    .where(CLOSED, or_(messages.c.content != _RECORDED, messages.c.conversation_id != _DECISION.conversation_id)),
}


def answered_turns(database: Database) -> AsyncIterator[Any]:
    """Yield id and start of the decision of every answered turn, in pages. A running turn may not have a decision yet."""
    answered = select(turns.c.id, turns.c.created_at).where(turns.c.state == TurnState.DONE)
    return read_pages(database.read, answered, turns.c.id)


def turn_differences(ids: Sequence[str]) -> Callable[[Connection], list[tuple[str, str]]]:
    """Return the query for what differs between these turns and their decisions: the id of each decision, and a sentence."""

    def find_differences(connection: Connection) -> list[tuple[str, str]]:
        found = [
            (decision_id, what)
            for what, query in _DIFFERENCES.items()
            for decision_id in connection.execute(query.where(query.selected_columns[0].in_(ids))).scalars()
        ]
        for decision_id, answer, recorded in connection.execute(_ANSWERS.where(turns.c.id.in_(ids))):
            if _reply_of(answer) != recorded:
                found.append((decision_id, "the stored answer of its turn is not the recorded one"))
        return found

    return find_differences


def _reply_of(answer: str) -> Any:
    """Return the reply of a stored `ChatAnswer`; None if it cannot be read."""
    try:
        return from_json(answer)["reply"]
    except (LookupError, TypeError, ValueError):
        return None
