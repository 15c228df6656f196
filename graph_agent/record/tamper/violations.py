"""Differences between the log and what was sealed: the kinds, the list that grows while the log is checked, and the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from graph_agent.models.base import Frozen

MAX_VIOLATIONS = 1000
"""Violations beyond this number are counted, not listed."""


class ViolationKind(StrEnum):
    """A way in which the log differs from what was written."""

    EDITED = "edited"
    """The record is not the one that was sealed."""
    MOVED = "moved"
    """The record was sealed at another position of the chain."""
    REMOVED = "removed"
    """A record, the end of a chain or a whole chain is missing, without a prune signature."""
    ADDED = "added"
    """A row that no seal covers."""
    PROJECTION = "projection"
    """A row differs from its record."""
    TEXT = "text"
    """A shared text is missing or does not match its digest."""
    SIGNATURE = "signature"
    """A signature is invalid or was made with another key."""


class Violation(Frozen):
    """One difference, in one sentence, with the decision's id if it concerns one."""

    kind: ViolationKind
    text: str
    decision_id: str | None = None
    chain: str | None = None
    n: int | None = None


class VerifyReport(Frozen):
    """The result of a verification. `count` is the number of all violations, of which `violations` lists the first."""

    records: int
    chains: int
    pruned: int
    open: int
    """The number of turns that are not closed yet: only their opening rows are sealed."""
    references: int = 0
    """The number of references in other databases to decisions of the log; each was looked up."""
    keyed: bool
    """True if the seals were checked with a key; without one they reveal accidents, not forgery."""
    count: int
    violations: list[Violation]

    @property
    def intact(self) -> bool:
        return self.count == 0


@dataclass(slots=True)
class ViolationList:
    """The violations of a verification in progress."""

    count: int = 0
    listed: list[Violation] = field(default_factory=list)

    def add(
        self, kind: ViolationKind, text: str, *, decision_id: str | None = None, chain: str | None = None, n: int | None = None
    ) -> None:
        self.count += 1
        if len(self.listed) < MAX_VIOLATIONS:
            self.listed.append(Violation(kind=kind, text=text, decision_id=decision_id, chain=chain, n=n))

    def extend(self, count: int, listed: list[Violation]) -> None:
        """Add violations that were found elsewhere, of which `listed` are the first."""
        self.count += count
        self.listed += listed[: MAX_VIOLATIONS - len(self.listed)]
