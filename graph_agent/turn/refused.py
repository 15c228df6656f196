"""Decisions about messages that do not become a turn, because a limit is reached or the message is not valid.

Each has a log row like any other decision, opened and closed at once, but no entries and no states.
"""

from __future__ import annotations

import json

from graph_agent.models.authors import TextAuthor
from graph_agent.models.decision import (
    MAX_MESSAGE_LENGTH,
    AgentDecision,
    DecisionContext,
    DecisionType,
    OutcomeCategory,
    unstorable,
)
from graph_agent.models.record import DecisionOpening, DecisionRecord, RecordStatus
from graph_agent.reply.authored import by_code, name_authors
from graph_agent.turn.engine import LLMAgentEngine


async def write_refused(
    engine: LLMAgentEngine, user_id: str, conversation_id: str, message: str, outcome: OutcomeCategory, reply: str
) -> DecisionRecord:
    """Record that `message` was answered with the fixed `reply`.

    Raises `RecordUnavailableError`, and `ConfigurationError` if the engine cannot run turns.
    """
    context = DecisionContext(user_id=user_id, message=_storable(message), conversation_id=conversation_id)
    # To its end, so that a caller who is cancelled leaves no open row.
    return await engine.complete(_write(engine, context, outcome, reply))


def refusal(decision_id: str, outcome: OutcomeCategory, reply: str) -> AgentDecision:
    """Return the decision about a message that does not become a turn."""
    return AgentDecision(
        decision_type=DecisionType.RESPOND_ONLY,
        response_text=reply,
        decision_id=decision_id,
        outcome_category=outcome,
        authors=name_authors(TextAuthor.USER, by_code(reply)),
    )


async def _write(engine: LLMAgentEngine, context: DecisionContext, outcome: OutcomeCategory, reply: str) -> DecisionRecord:
    snapshot = await engine.prepare()
    header = engine.header(context, snapshot)
    record = DecisionRecord(
        header=header,
        entries=[],
        status=RecordStatus.COMPLETED,
        states=[],
        iterations=0,
        decision=refusal(header.decision_id, outcome, reply),
        ended_at=header.started_at,
        duration_ms=0,
    )
    return await engine.audit.write_closed(DecisionOpening.of(header, snapshot.texts), record)


def _storable(message: str) -> str:
    """Return `message` in a form that the log can store: truncated, and as a JSON string if it is blank or not valid text."""
    cut = message[:MAX_MESSAGE_LENGTH]
    if cut.strip() and unstorable(cut) is None:
        return cut
    return json.dumps(cut)[:MAX_MESSAGE_LENGTH]
