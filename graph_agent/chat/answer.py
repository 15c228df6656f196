"""The answer of a chat turn, and the function that stores it."""

from __future__ import annotations

from typing import Any

from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import TurnStore
from graph_agent.models.base import Frozen
from graph_agent.models.decision import AgentDecision
from graph_agent.models.record import DecisionRecord


class ChatAnswer(Frozen):
    """The answer of a turn; `message_id` is the assistant's message."""

    conversation_id: str
    message_id: str
    decision_id: str
    reply: str
    decision: AgentDecision
    states: list[str]

    def reply_json(self) -> dict[str, Any]:
        """Return the JSON for a client: everything but the visited states."""
        reply = {name: value for name, value in self.to_json().items() if name != "states"}
        # A record leaves out what is empty, so that its text stays the same over versions; a client can rely on the field.
        return {**reply, "decision": {**reply["decision"], "notices": self.decision.notices}}


async def store_answer(turns: TurnStore, turn: ClaimedTurn, record: DecisionRecord, message_id: str) -> ChatAnswer:
    """Complete a claimed turn with its decision. Return the stored answer, which another process may have stored first.

    Raises `TurnTakenOverError` if another process has claimed the turn and has not answered it yet.
    """
    answer = ChatAnswer(
        conversation_id=turn.conversation_id,
        message_id=message_id,
        decision_id=turn.decision_id,
        reply=record.decision.reply,
        decision=record.decision,
        states=record.states,
    )
    return ChatAnswer.model_validate(await turns.complete(turn, message_id, record.decision, answer.to_json()))
