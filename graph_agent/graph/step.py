"""The work of one node of a turn. It is read by much that runs no turn, so it needs no LangGraph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from graph_agent.graph.state import Turn
from graph_agent.graph.topology import END
from graph_agent.models.record import RecordEntry


@dataclass(frozen=True, slots=True)
class Step:
    """The work of one node. It unpacks to `(state, outcome, changed)`."""

    state: str
    outcome: str
    before: Turn
    turn: Turn
    entered: str = END
    """The next state."""
    ended_us: int = field(default=0, compare=False)
    """The time when the node ended, in microseconds after the turn began."""
    entries: Sequence[RecordEntry] = field(default=(), compare=False)
    """The answers that the ports gave to the node."""

    @property
    def changed(self) -> dict[str, Any]:
        """The fields that the node has changed, with their new values."""
        names = (field.name for field in fields(Turn) if field.name != "outcome")
        return {name: value for name in names if (value := getattr(self.turn, name)) != getattr(self.before, name)}

    def __iter__(self) -> Iterator[Any]:
        return iter((self.state, self.outcome, self.changed))
