"""Turns that are replayed as soon as they have ended: the replay must give the same."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from graph_agent.replays.replayer import replay
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.finished import FinishedTurn
from tests.scripted_turns import asks


async def replayed(engine: LLMAgentEngine, finished: FinishedTurn) -> FinishedTurn:
    """Replay a turn from what the engine has recorded, and return the turn."""
    texts = await engine.audit.texts(list(finished.record.header.digests.values()))
    report = await replay(finished.record, texts)
    assert report.identical, (report.departure, report.differences)
    return finished


@dataclass
class ReplayedConversation:
    """A conversation of which each turn is replayed."""

    engine: LLMAgentEngine
    turns: list[FinishedTurn] = field(default_factory=list, kw_only=True)

    async def say(self, text: str = "please", **more: Any) -> FinishedTurn:
        """Send a message, as the answer to the question of the last turn if it asked one."""
        pending = self.turns[-1].decision.pending_action if self.turns else None
        finished = await self.engine.run(asks(text, pending_confirmation=pending, **more))
        self.turns.append(await replayed(self.engine, finished))
        return finished
