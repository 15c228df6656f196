"""The answer of a chat turn."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from graph_agent.models.base import Frozen
from graph_agent.models.decision import AgentDecision
from graph_agent.turn.handle import TurnHandle


class ChatReply(Frozen):
    """The answer to a message; `message_id` is the assistant's message."""

    conversation_id: str
    message_id: str
    decision_id: str
    reply: str
    decision: AgentDecision
    # Left out of the JSON if it is None: only the first answer of a conversation has it.
    disclosure: str | SkipJsonSchema[None] = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="With the first answer of a conversation: the line that says that one talks to an AI system.",
    )


class ChatAnswer(ChatReply):
    """The answer as it is stored, with the visited states."""

    states: list[str]

    def reply_json(self) -> dict[str, Any]:
        """Return the JSON for a client: everything but the visited states."""
        reply = {name: value for name, value in self.to_json().items() if name != "states"}
        # A record leaves out what is empty, so that its text stays the same over versions; a client can rely on the field.
        return {**reply, "decision": {**reply["decision"], "notices": self.decision.notices}}


StartedTurn = TurnHandle[ChatAnswer] | ChatAnswer
"""The run of a message, or the answer that it got before."""
