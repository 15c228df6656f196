"""The decisions that turns name, for the verification of the log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sqlalchemy import select

from graph_agent.chat.conversations.tables import TurnState, turns
from graph_agent.db import Database
from graph_agent.db.paging import read_pages


def answered_turns(database: Database) -> AsyncIterator[Any]:
    """Yield id and start of the decision of every answered turn, in pages. A running turn may not have a decision yet."""
    answered = select(turns.c.id, turns.c.created_at).where(turns.c.state == TurnState.DONE)
    return read_pages(database.read, answered, turns.c.id)
