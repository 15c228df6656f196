"""Statements of the log about itself, which are leaves of the tree: what was removed on purpose, or forked.

A statement contains no personal data, and is never removed.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from graph_agent.db.types import storable_json
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.canonical import canonical_json
from graph_agent.record.tree.leaves import Sealer, new_leaf
from graph_agent.record.tree.tables import LeafKind, record_leaves, record_removals, tree_statements


class StatementKind(StrEnum):
    """The kind of a statement: the fact that it states."""

    ERASED = "erased"
    """The records of persons were removed, at their request or for another reason."""
    PRUNED = "pruned"
    """Records were removed because they were older than the retention."""
    FORKED = "forked"
    """The log continues from an older state, under a new origin."""
    KEY = "key"
    """The log has a new key."""
    STOPPED = "stopped"
    """An operator has stopped something."""
    RESUMED = "resumed"
    """An operator has ended a stop."""
    REVOKED = "revoked"
    """A plan that a person had agreed to was revoked."""
    RULES = "rules"
    """Other rules are in force."""


class Statement(Frozen):
    """A statement. Fields that its kind does not use are None."""

    statement: StatementKind
    at: UtcDatetime
    count: int | None = None
    """The number of removed leaves, or of the calls that were drawn from a plan before it was revoked."""
    leaves: list[tuple[int, int]] | None = None
    """The removed leaves, as ranges without their ends."""
    before: UtcDatetime | None = None
    """The time before which the removed decisions had started."""
    reasons: list[str] | None = None
    subjects: list[str] | None = None
    """SHA-256 of each person's receipt and user id: only the receipt shows whom a statement concerns."""
    lost: str | None = None
    """The signed checkpoint of the tree that a fork does not continue."""
    key: str | None = None
    number: int | None = None
    """The number of a stop, or of an activation of rules."""
    scope: str | None = None
    """The extent of a stop, without the name of its tool, user or server."""
    mandate: str | None = None
    """The id of a plan that was revoked."""
    rules: str | None = None
    """The digest of the rule set that is in force from now on."""
    previous: str | None = None
    """The digest of the rule set that was in force before."""
    kind: str | None = None
    """The kind of the activation; None if a process with these files opened a decision."""

    def to_text(self) -> str:
        """Return the text that the leaf commits to."""
        return canonical_json({name: value for name, value in self.to_json().items() if value is not None})


NOTED = select(record_removals.c.number, record_removals.c.facts, record_removals.c.mac)
"""The query for the removals that no statement lists yet; `is_noted_by_us` checks a row."""


def add_statement(connection: Connection, statement: Statement, sealer: Sealer) -> None:
    """Store a statement, which is in the tree from the next seal on."""
    statement_id, text = str(uuid.uuid4()), statement.to_text()
    leaf = new_leaf(LeafKind.STATEMENT, statement_id, text, sealer)
    connection.execute(insert(tree_statements), {"statement_id": statement_id, "salt": leaf.salt, "text": text})
    leaf.store(connection)


def note_removal(connection: Connection, kind: LeafKind, items: Sequence[str], removal: Statement, sealer: Sealer) -> int:
    """Note that rows are removed on purpose, in the transaction that removes them; return the number of their leaves.

    `removal` is what will be stated, apart from the leaves. Rows that are not in the tree must not be removed.
    """
    wanted = (record_leaves.c.kind == kind) & record_leaves.c.item.in_(list(items))
    leaves = list(connection.execute(delete(record_leaves).where(wanted).returning(record_leaves.c.n)).scalars())
    if leaves or removal.subjects:
        facts = storable_json(removal.replace(leaves=ranges(leaves), count=len(leaves)).to_json())
        row = {"removed_at": removal.at, "facts": facts, "mac": sealer.macs("removal", text=facts)[0]}
        connection.execute(insert(record_removals), row)
    return len(leaves)


def state_removals(connection: Connection, until: datetime, sealer: Sealer) -> None:
    """Replace the removals from before this time by one statement of each kind."""
    noted = NOTED.where(record_removals.c.removed_at < until).order_by(record_removals.c.number)
    # What has no valid MAC stays, and is reported.
    rows = [row for row in connection.execute(noted.with_for_update()) if is_noted_by_us(row, sealer)]
    if not rows:
        return
    removals = [Statement.model_validate_json(row.facts) for row in rows]
    for kind in StatementKind:
        if one_kind := [removal for removal in removals if removal.statement is kind]:
            add_statement(connection, _combined(one_kind, until), sealer)
    connection.execute(delete(record_removals).where(record_removals.c.number.in_([row.number for row in rows])))


def is_noted_by_us(row: Any, sealer: Sealer) -> bool:
    """True if a row of `record_removals` has its MAC."""
    return row.mac in sealer.macs("removal", text=row.facts)


Range = tuple[int, int]
"""Numbers from the first to the second, which is not one of them."""


def ranges(numbers: Iterable[int]) -> list[Range]:
    """Return numbers as ranges, in ascending order."""
    return merged((n, n + 1) for n in numbers)


def merged(parts: Iterable[Range]) -> list[Range]:
    """Return the numbers that are in any of `parts`, as ranges in ascending order with gaps between them."""
    found: list[Range] = []
    for start, end in sorted(parts):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def difference(parts: Iterable[Range], others: Iterable[Range]) -> list[Range]:
    """Return the numbers of `parts` that are in none of the `others`; both as `merged` returns them."""
    found, gone = [], deque(others)
    for first, end in parts:
        start = first
        while gone and gone[0][0] < end:
            if gone[0][0] > start:
                found.append((start, gone[0][0]))
            start = max(start, gone[0][1])
            if gone[0][1] > end:
                break
            gone.popleft()
        if start < end:
            found.append((start, end))
    return found


def count_of(parts: Iterable[Range]) -> int:
    """Return how many numbers ranges have."""
    return sum(end - start for start, end in parts)


def _combined(removals: Sequence[Statement], at: datetime) -> Statement:
    """Return one statement for several removals. Sorted, so that it does not show which facts belong together."""
    leaves = [part for one in removals for part in one.leaves or ()]
    subjects = sorted(subject for one in removals for subject in one.subjects or ())
    reasons = sorted({reason for one in removals for reason in one.reasons or ()})
    befores = [one.before for one in removals if one.before is not None]
    return Statement(
        statement=removals[0].statement,
        at=at.astimezone(UTC),
        count=sum(one.count or 0 for one in removals),
        leaves=merged(leaves),
        before=max(befores, default=None),
        reasons=reasons or None,
        subjects=subjects or None,
    )
