"""The conversation database: conversations, messages, turns, rate limits and used confirmations.

Its tables are in the same database as the tasks; neither refers to the other.
"""

from graph_agent.chat.conversations.confirmations import ConfirmationStore
from graph_agent.chat.conversations.reading import (
    Conversation,
    ConversationPage,
    ConversationStore,
    ConversationSummary,
    StoredMessage,
)
from graph_agent.chat.conversations.turn_rows import ClaimedTurn
from graph_agent.chat.conversations.turns import AbandonedTurn, AnsweredTurn, TurnRequest, TurnStore, busy, in_progress

__all__ = [
    "AbandonedTurn",
    "AnsweredTurn",
    "ClaimedTurn",
    "ConfirmationStore",
    "Conversation",
    "ConversationPage",
    "ConversationStore",
    "ConversationSummary",
    "StoredMessage",
    "TurnRequest",
    "TurnStore",
    "busy",
    "in_progress",
]
