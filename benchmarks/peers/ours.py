"""graph_agent: the compiled graph alone, and a whole engine where a conversation is stored."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from benchmarks import graph
from benchmarks.peers.files import growth
from benchmarks.peers.turns import MESSAGE, Conversation
from benchmarks.turn import full_engine
from graph_agent.models.decision import MAX_HISTORY_MESSAGES, DecisionContext, Message

PACKAGE = "graph-agent"

turn_of = graph.ours


def conversation(folder: str, stack: AsyncExitStack) -> Conversation:
    """Return one conversation with its record, ledger and rows for confirmations."""
    history: list[Message] = []
    opened = []

    async def turn() -> int:
        if not opened:
            opened.append(await stack.enter_async_context(full_engine(Path(folder))))
        context = DecisionContext(
            user_id="ann", message=MESSAGE, conversation_id="c", message_history=history[-MAX_HISTORY_MESSAGES:]
        )
        with growth(folder) as grown:
            finished = await opened[0].run(context)
        history.extend([Message("user", MESSAGE), Message("assistant", finished.decision.reply)])
        return grown()

    return turn
