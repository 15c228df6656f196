"""Differences between the log and what was written: the kinds, the list that grows while the log is checked, and the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from graph_agent.models.base import Frozen, UtcDatetime

MAX_VIOLATIONS = 1000
"""Violations beyond this number are counted, not listed."""


class ViolationKind(StrEnum):
    """A way in which the log differs from what was written."""

    EDITED = "edited"
    """A row is not the one in the tree, or the tree is not the one that was signed or witnessed."""
    REMOVED = "removed"
    """A record or the end of the log is missing, and no statement says why."""
    ADDED = "added"
    """A row is neither in the tree nor waits for it."""
    EFFECT = "effect"
    """A successful call of a decision has no operation in the ledger of the task server."""
    PROJECTION = "projection"
    """A row differs from its record, or is an operation that was added or changed by hand."""
    TEXT = "text"
    """A shared text is missing or does not match its digest."""
    SIGNATURE = "signature"
    """A signature is invalid or was made with another key."""


class Violation(Frozen):
    """One difference, in one sentence, with the decision's id if it concerns one."""

    kind: ViolationKind
    text: str
    decision_id: str | None = None
    n: int | None = None
    """The position of a leaf."""


class Anchor(Frozen):
    """A checkpoint that was seen outside of the database and that the log continues."""

    name: str
    """The witness, or the file beside the key."""
    size: int
    at: UtcDatetime | None
    """None for the file, which has no time."""


class VerifyReport(Frozen):
    """The result of a verification. `count` is the number of all violations, of which `violations` lists the first."""

    records: int
    size: int
    """The leaves of the tree: records, reports, settlements and statements, also those of removed records."""
    removed: int
    """The leaves whose records were removed on purpose, as statements say."""
    unstated: int
    """The number of leaves among them that no statement lists yet: the one of the day will."""
    waiting: int
    """The rows that are not in the tree yet; their MACs were checked."""
    open: int
    """The number of turns that are not closed yet: only their opening rows have a MAC."""
    references: int = 0
    """The number of turns, operations and calls that were compared with the decisions of the log, and the other way round."""
    forks: list[str]
    """The reasons for which the log continued from an older state."""
    anchors: list[Anchor]
    """The checkpoints that the log continues. Without a witness the log could have been rolled back as a whole."""
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

    def add(self, kind: ViolationKind, text: str, *, decision_id: str | None = None, n: int | None = None) -> None:
        self.count += 1
        if len(self.listed) < MAX_VIOLATIONS:
            self.listed.append(Violation(kind=kind, text=text, decision_id=decision_id, n=n))

    def extend(self, other: ViolationList) -> None:
        """Add violations that were found elsewhere."""
        self.count += other.count
        self.listed += other.listed[: MAX_VIOLATIONS - len(self.listed)]
