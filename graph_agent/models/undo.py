"""The undoing of earlier changes: what a decision without a model undoes, and what the changes had replaced and left."""

from __future__ import annotations

from operator import not_
from typing import Any

from pydantic import Field

from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.said import Said


class RestoredObject(Frozen):
    """The values that a change has replaced and left, by the read that its line in the constitution names."""

    tool: str
    arguments: dict[str, Any]
    before: dict[str, Any]
    """The values that the undo restores, by path."""
    left: dict[str, Any]
    """The values right after the change, by path."""
    filled: dict[str, str] = Field(default_factory=dict, exclude_if=lambda filled: not filled)
    """The arguments of the undo that restore a value, each with its path."""


class UndoneCall(Frozen):
    """An earlier call that another call undoes."""

    decision_id: str
    sequence: int = Field(ge=1)
    until: UtcDatetime
    """The end of the time for which the change can be undone."""
    restored: RestoredObject | None = Field(default=None, exclude_if=lambda restored: restored is None)
    """None if nothing is read before the change."""
    said: Said | None = Field(default=None, exclude_if=lambda said: said is None)
    """The sentence of the change, as it was said when it was made."""

    @property
    def is_compared(self) -> bool:
        """True if the undo is made only if its object is as the change has left it."""
        return self.restored is not None and bool(self.restored.left)

    @property
    def operation(self) -> str:
        """The operation that is undone, as DECISION:NUMBER."""
        return f"{self.decision_id}:{self.sequence}"


class UndoneDecision(Frozen):
    """The decision whose changes are undone."""

    decision_id: str
    calls: tuple[UndoneCall, ...]
    """The call that each call of the undoing decision undoes, in their order."""
    left_out: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """The sentences before the question: about the other changes of the decision, and those that are not compared."""
