"""Sealing: pending rows become leaves of the tree, and the new root is signed, in one transaction.

Any process may seal. On PostgreSQL an advisory lock admits one at a time, on SQLite the database has one writer. If a process
dies, its transaction is rolled back, and another one seals the same rows. The order of sealing is the order of the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update

from graph_agent.errors import RecordRolledBackError
from graph_agent.ports import Clock
from graph_agent.record.sealer import Sealer
from graph_agent.record.tree.keys import LogKeys
from graph_agent.record.tree.leaves import is_written_by_us, leaf_entry
from graph_agent.record.tree.reading import has_prefix, read_head
from graph_agent.record.tree.statements import Statement, StatementKind, add_statement, state_removals
from graph_agent.record.tree.tables import record_leaves, record_pending, tree_head, tree_leaves, tree_nodes
from graph_agent.tlog.checkpoint import Checkpoint
from graph_agent.tlog.merkle import TILE_LEVELS, Frontier, leaf_hash
from graph_agent.tlog.note import NoteError

BATCH = 1000
"""Leaves of one transaction."""
# Advisory locks are those of a database, which may have several logs, each in a schema.
_LOCK = "SELECT pg_try_advisory_xact_lock(hashtext('graph_agent record tree'), hashtext(current_schema()))"


class TreeSealer:
    """Seals pending rows with the keys of a log; `sealer` checks their MACs."""

    def __init__(self, keys: LogKeys, sealer: Sealer, *, clock: Clock) -> None:
        self.keys = keys
        self._sealer = sealer
        self._clock = clock
        self.seen: Checkpoint | None = None
        """The last checkpoint that this process knows to be committed; None until it has looked."""

    def seal(self, connection: Connection) -> Checkpoint | None:
        """Seal one batch and return the signed checkpoint; None if no rows wait, or another process seals.

        Raises `RecordRolledBackError` if the tree is not a continuation of the one that this process saw last.
        """
        if not self._lock(connection):
            return None
        # Removals are stated once a day, for the days that are over.
        today = self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        state_removals(connection, today, self._sealer)
        rows = self._waiting(connection)
        return self._append(connection, rows) if rows else None

    def require_continuation(self, connection: Connection, seen: Iterable[Checkpoint]) -> Checkpoint:
        """Return the head. Raises `RecordRolledBackError` unless the tree begins with each of the trees that were `seen`."""
        head, _ = self._head(connection)
        for checkpoint in seen:
            if checkpoint.origin != head.origin or checkpoint.size > head.size or not has_prefix(connection, checkpoint):
                raise RecordRolledBackError(
                    f"the log {checkpoint.origin} had {checkpoint.size} leaves, and the database has another tree, "
                    f"of {head.size}: it was rolled back or rewritten. If an older copy was restored on purpose: "
                    "graph-agent log fork"
                )
        return head

    def fork(self, connection: Connection, lost: str, reason: str) -> Checkpoint:
        """Continue the tree under a new origin, after a statement with the signed checkpoint that is lost; return its head."""
        if not self._lock(connection):
            raise RecordRolledBackError("another process is sealing the log: stop all processes first")
        statement = Statement(statement=StatementKind.FORKED, at=self._clock.now(), lost=lost, reasons=[reason])
        add_statement(connection, statement, self._sealer)
        lost_origin = Checkpoint.parse(lost.partition("\n\n")[0] + "\n").origin
        self.seen = None
        while rows := self._waiting(connection):
            head = self._append(connection, rows, self.keys.next_fork(lost_origin))
        return head  # the statement waited, so something was appended

    def _lock(self, connection: Connection) -> bool:
        return connection.dialect.name == "sqlite" or bool(connection.scalar(text(_LOCK)))

    def _head(self, connection: Connection) -> tuple[Checkpoint, Frontier]:
        """Return the stored head and its tree. Raises `RecordRolledBackError` if this log has not signed the checkpoint."""
        try:
            head = read_head(connection)
            if head is None:
                return Checkpoint(self.keys.origin, 0, Frontier().root()), Frontier()
            checkpoint = self.keys.open(head.note)
            if (checkpoint.size, checkpoint.root) != (head.frontier.size, head.frontier.root()):
                raise NoteError("it is not the checkpoint of the stored tree")
        except ValueError as exc:
            raise RecordRolledBackError(f"the head of the log is not signed with LOG_SIGNING_KEY or log.key: {exc}") from None
        return checkpoint, head.frontier

    def _waiting(self, connection: Connection) -> list[Any]:
        """Return pending rows that may be sealed, oldest first. What was added by hand stays, and `log verify` reports it."""
        after = 0
        while True:
            query = select(record_pending).where(record_pending.c.number > after).order_by(record_pending.c.number).limit(BATCH)
            rows = connection.execute(query).all()
            names = select(record_leaves.c.kind, record_leaves.c.item).where(
                record_leaves.c.item.in_([row.item for row in rows])
            )
            # A copy of a row that was sealed has a valid MAC, too.
            sealed = {(row.kind, row.item) for row in connection.execute(names)}
            unsealed = [row for row in rows if (row.kind, row.item) not in sealed]
            new = {(row.kind, row.item): row for row in unsealed if is_written_by_us(row, self._sealer)}
            if new or not rows:
                return list(new.values())
            after = rows[-1].number

    def _append(self, connection: Connection, rows: list[Any], origin: str | None = None) -> Checkpoint:
        found, tree = self._head(connection)
        if self.seen is not None and self.seen != found:
            # Another process has sealed meanwhile, or the database was put back behind the back of this one.
            self.require_continuation(connection, [self.seen])
        leaves, places, nodes = [], [], []
        for row in rows:
            leaves.append({"n": tree.size, "kind": row.kind, "commitment": row.commitment})
            places.append({"n": tree.size, "kind": row.kind, "item": row.item})
            for level, n, root in tree.push(leaf_hash(leaf_entry(row.kind, row.commitment))):
                nodes.append({"level": level // TILE_LEVELS, "n": n, "hash": root})
        connection.execute(insert(tree_leaves), leaves)
        connection.execute(insert(record_leaves), places)
        if nodes:
            connection.execute(insert(tree_nodes), nodes)
        numbers = [row.number for row in rows]
        connection.execute(delete(record_pending).where(record_pending.c.number.in_(numbers)))
        checkpoint = Checkpoint(origin or found.origin, tree.size, tree.root())
        values = {"size": tree.size, "frontier": b"".join(tree.hashes), "note": self.keys.sign(checkpoint)}
        if found.size:
            connection.execute(update(tree_head), values)
        else:
            connection.execute(insert(tree_head), {"id": 1, **values})
        return checkpoint
