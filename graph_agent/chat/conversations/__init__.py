"""Conversations, their messages, the turns that run in them, the limit of turns, and confirmations that were used.

The tables share the task database's file or server, and know nothing of the task server's.
"""

from graph_agent.chat.conversations.confirmations import ConfirmationStore
from graph_agent.chat.conversations.reading import (
    Conversation,
    ConversationPage,
    ConversationStore,
    ConversationSummary,
    StoredMessage,
)
from graph_agent.chat.conversations.turn_rows import HeldTurn
from graph_agent.chat.conversations.turns import AbandonedTurn, AnsweredTurn, TurnRequest, TurnStore, busy, in_progress

__all__ = [
    "AbandonedTurn",
    "AnsweredTurn",
    "ConfirmationStore",
    "Conversation",
    "ConversationPage",
    "ConversationStore",
    "ConversationSummary",
    "HeldTurn",
    "StoredMessage",
    "TurnRequest",
    "TurnStore",
    "busy",
    "in_progress",
]
