"""The tree of one database: it is sealed, guarded against a rollback, and shown to witnesses.

Sealing makes pending rows leaves of the tree and signs the new root, in one transaction. Any process may seal. On PostgreSQL an
advisory lock admits one at a time, on SQLite the database has one writer. If a process dies, its transaction is rolled back,
and another one seals the same rows. The order of sealing is the order of the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update

from graph_agent.db import Database, insert_new
from graph_agent.errors import RecordRolledBackError
from graph_agent.ports import Clock
from graph_agent.record.statements import read, write
from graph_agent.record.tree.kept_head import HeadFile, KeptHead
from graph_agent.record.tree.leaves import RecordKey, Sealer, is_written_by_us, leaf_entry
from graph_agent.record.tree.reading import has_prefix, read_head, stored_nodes
from graph_agent.record.tree.stated_stops import state_stops
from graph_agent.record.tree.statements import Statement, StatementKind, add_statement, state_removals
from graph_agent.record.tree.tables import record_leaves, record_pending, tree_cosignatures, tree_head, tree_leaves, tree_nodes
from graph_agent.tlog.checkpoint import Checkpoint, LogKeys
from graph_agent.tlog.merkle import TILE_LEVELS, Frontier, consistency_proof, leaf_hash
from graph_agent.tlog.note import NoteError, VerifierKey, encode
from graph_agent.tlog.witness import WitnessClient, WitnessError

_log = logging.getLogger(__name__)

BATCH = 1000
"""Leaves of one transaction."""
# Advisory locks are those of a database, which may have several logs, each in a schema.
_NAME = "hashtext('graph_agent record tree'), hashtext(current_schema())"
_TRY_LOCK, _WAIT_FOR_LOCK = text(f"SELECT pg_try_advisory_xact_lock({_NAME})"), text(f"SELECT pg_advisory_xact_lock({_NAME})")


class TreeSealer:
    """Seals pending rows with the keys of a log; `sealer` checks their MACs."""

    def __init__(self, keys: LogKeys, sealer: Sealer, *, clock: Clock) -> None:
        self.keys = keys
        self._sealer = sealer
        self._clock = clock
        self.seen: Checkpoint | None = None
        """The last checkpoint that this process knows to be committed; None until it has sealed."""
        self.passed = 0
        """The number of the pending row up to which this sealing has passed: what was added by hand stays there."""

    def seal(self, connection: Connection) -> Checkpoint | None:
        """Seal one batch and return the signed checkpoint; None if no rows wait, or another process seals.

        The first call waits for that process instead, because it must find out whether the other one has the current key.
        Raises `RecordRolledBackError` if the tree is not a continuation of the one that this process saw last.
        """
        is_first = self.seen is None
        if not self._lock(connection, wait=is_first):
            return None
        if is_first:
            self._state_key(connection)
        # Removals are stated once a day, for the days that are over.
        today = self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        state_removals(connection, today, self._sealer)
        state_stops(connection, self._sealer)
        rows = self._waiting(connection)
        return self._append(connection, rows) if rows else None

    def require_continuation(self, connection: Connection, seen: Iterable[Checkpoint]) -> Checkpoint:
        """Return the head. Raises `RecordRolledBackError` unless the tree begins with each of the trees that were `seen`."""
        head, _, _ = self._head(connection)
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
        self.passed = 0
        while rows := self._waiting(connection):
            head = self._append(connection, rows, self.keys.next_fork(lost_origin))
        return head  # the statement waited, so something was appended

    def _state_key(self, connection: Connection) -> None:
        """State the current key if it has not signed the head, so that this process signs another one.

        Raises `RecordRolledBackError` if the keys of this process are outdated.
        """
        # Another process may have signed with a newer key since this one compared the head.
        _, _, signer = self._head(connection)
        current = self.keys.all[0].verifier
        if signer is not None and signer.public != current.public:
            statement = Statement(statement=StatementKind.KEY, at=self._clock.now(), key=str(current))
            add_statement(connection, statement, self._sealer)

    def _lock(self, connection: Connection, *, wait: bool = False) -> bool:
        if connection.dialect.name == "sqlite":
            return True
        return bool(connection.execute(_WAIT_FOR_LOCK if wait else _TRY_LOCK).scalar()) or wait

    def _head(self, connection: Connection) -> tuple[Checkpoint, Frontier, VerifierKey | None]:
        """Return the stored head, its tree, and the key that signed it first; None before the first seal.

        Raises `RecordRolledBackError` if this log has not signed the checkpoint, or its newest key is not one of this process.
        """
        try:
            head = read_head(connection)
            if head is None:
                return Checkpoint(self.keys.origin, 0, Frontier().root()), Frontier(), None
            checkpoint = self.keys.open(head.note)
            # A process that was not restarted after a rotation would sign over the new key.
            signer = self.keys.newest_of(head.note)
            if (checkpoint.size, checkpoint.root) != (head.frontier.size, head.frontier.root()):
                raise NoteError("it is not the checkpoint of the stored tree")
        except ValueError as exc:
            text = "the head of the log is not signed with LOG_SIGNING_KEY or log.key, as this process has read it"
            raise RecordRolledBackError(f"{text} (restart it after a rotation): {exc}") from None
        return checkpoint, head.frontier, signer

    def _waiting(self, connection: Connection) -> list[Any]:
        """Return pending rows that may be sealed, oldest first. What was added by hand stays, and `log verify` reports it."""
        while True:
            query = select(record_pending).where(record_pending.c.number > self.passed)
            query = query.order_by(record_pending.c.number).limit(BATCH)
            rows = connection.execute(query).all()
            names = select(record_leaves.c.kind, record_leaves.c.item).where(
                record_leaves.c.item.in_([row.item for row in rows])
            )
            # A copy of a row that was sealed has a valid MAC, too.
            sealed = {(row.kind, row.item) for row in connection.execute(names)}
            unsealed = [row for row in rows if (row.kind, row.item) not in sealed]
            new = {(row.kind, row.item): row for row in unsealed if is_written_by_us(row, self._sealer)}
            if len(new) < len(rows):
                # Looked at once in a sealing, whose time would grow with the square of their number otherwise.
                self.passed = rows[-1].number
            if new or not rows:
                return list(new.values())

    def _append(self, connection: Connection, rows: list[Any], origin: str | None = None) -> Checkpoint:
        found, tree, _ = self._head(connection)
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
        connection.execute(delete(record_pending).where(record_pending.c.number.in_([row.number for row in rows])))
        checkpoint = Checkpoint(origin or found.origin, tree.size, tree.root())
        values = {"size": tree.size, "frontier": b"".join(tree.hashes), "note": self.keys.sign(checkpoint)}
        if found.size:
            connection.execute(update(tree_head), values)
        else:
            connection.execute(insert(tree_head), {"id": 1, **values})
        return checkpoint


class RecordTree:
    """Seals with the keys of the log, and keeps the last signed checkpoint in the file `head`, outside of the database.

    Raises `ServiceError` STORAGE_ERROR where the database does not answer.
    """

    def __init__(
        self,
        database: Database,
        keys: LogKeys,
        *,
        key: RecordKey,
        clock: Clock,
        head: Path | KeptHead | None = None,
        head_of_copies: Callable[[str], Path] | None = None,
        witnesses: Sequence[WitnessClient] = (),
    ) -> None:
        """`key` makes the MACs of pending rows; `head` is where the last checkpoint is kept, a file or another place.

        `head_of_copies` returns a further file by the commitment of the first leaf, which every copy of the database has.
        """
        self.keys, self.key, self.witnesses = keys, key, witnesses
        self._database = database
        self._head = HeadFile(head) if isinstance(head, Path) else head
        self._head_of_copies = head_of_copies
        self._sealer = TreeSealer(keys, Sealer(key), clock=clock)
        # `seen` and `passed` of the sealer belong to one run in this process. Other processes meet the lock in the database.
        self._sealing = asyncio.Lock()
        self._cosigned: dict[WitnessClient, int] = {}
        self.is_rolled_back = False
        """True if the last comparison has found that the log does not continue what was seen of it. Then nothing is sealed."""

    async def seal(self) -> int:
        """Seal everything that waits; return the size of the tree if it has grown, else 0. Raises `RecordRolledBackError`."""
        with self._comparing():
            return await self._seal()

    async def require_continuation(self, *, ask_witnesses: bool = False) -> int:
        """Return the size of the tree if it continues what this process and the file beside the key have seen of it.

        Raises `RecordRolledBackError` if it does not.
        """
        with self._comparing():
            # Before the tree is read: another process may seal meanwhile, and keep a newer head.
            if ask_witnesses:
                seen = [checkpoint for _, checkpoint, _ in await self.seen_elsewhere()]
            else:
                seen = [checkpoint for _, checkpoint in await self._read_kept()]
                seen += [] if self._sealer.seen is None else [self._sealer.seen]
            return (await read(self._database, partial(self._sealer.require_continuation, seen=seen))).size

    @contextmanager
    def _comparing(self) -> Iterator[None]:
        try:
            yield
        except RecordRolledBackError:
            self.is_rolled_back = True
            raise
        self.is_rolled_back = False

    async def _seal(self) -> int:
        size = 0
        async with self._sealing:
            head = self._sealer.seen
            is_first = head is None
            if head is None:
                # Before it signs its first checkpoint, this process compares the tree with what was seen elsewhere.
                seen = [checkpoint for _, checkpoint, _ in await self.seen_elsewhere()]
                head = await read(self._database, partial(self._sealer.require_continuation, seen=seen))
            self._sealer.passed = 0
            while (checkpoint := await write(self._database, self._sealer.seal)) is not None:
                self._sealer.seen = head = checkpoint
                size = head.size
            self._sealer.seen = head
            # After a rotation the head that this host has kept may have the signature of the old key alone.
            if size or (is_first and head.size):
                await self._keep(head)
        return size

    async def seen_elsewhere(self) -> list[tuple[str, Checkpoint, int]]:
        """Return what the witnesses and the file beside the key have seen of the log: a name, a checkpoint and a POSIX time.

        The time of the file is 0. A witness that does not answer is left out, and so is one that knows no checkpoint. Raises
        `RecordRolledBackError` if the file was changed by hand.
        """
        origin = await self.origin()
        found = await asyncio.gather(
            *(witness.latest(origin, self.keys.verifiers(origin)) for witness in self.witnesses), return_exceptions=True
        )
        seen = []
        for witness, result in zip(self.witnesses, found, strict=True):
            if isinstance(result, WitnessError):
                _log.warning("%s", result)
            elif isinstance(result, BaseException):
                raise result
            elif result is not None:
                seen.append((witness.key.name, *result))
        return seen + [(name, kept, 0) for name, kept in await self._read_kept()]

    async def push(self) -> int:
        """Submit the head to the witnesses that have not cosigned it yet; return how many have cosigned it now."""
        head = await read(self._database, read_head)
        if head is None:
            return 0
        checkpoint = self.keys.open(head.note)
        waiting = [witness for witness in self.witnesses if self._cosigned.get(witness) != checkpoint.size]
        return sum(await asyncio.gather(*(self._submit(witness, checkpoint, head.note) for witness in waiting)))

    async def fork(self, reason: str) -> Checkpoint:
        """Continue a log that was put back on purpose under a new origin; return the checkpoint that was lost.

        Raises `RecordRolledBackError` if nothing was put back.
        """
        lost: Checkpoint | None = None
        for _, checkpoint, _ in await self.seen_elsewhere():
            try:
                await read(self._database, partial(self._sealer.require_continuation, seen=[checkpoint]))
            except RecordRolledBackError:
                lost = checkpoint if lost is None or checkpoint.size > lost.size else lost
        if lost is None:
            raise RecordRolledBackError("the log continues everything that was seen of it: there is nothing to fork")
        note = self.keys.sign(lost)
        await self._keep(await write(self._database, lambda connection: self._sealer.fork(connection, note, reason)))
        return lost

    async def prove_growth(self, old: Checkpoint) -> tuple[str, list[str]]:
        """Return the signed head, and the proof in base64 that it continues an old checkpoint.

        Raises `RecordRolledBackError` if it does not.
        """

        def prove(connection: Connection) -> tuple[str, list[str]]:
            new = self._sealer.require_continuation(connection, [old])
            head = read_head(connection)
            proof = _prove_growth(connection, old.size, new.size)
            return "" if head is None else head.note, list(map(encode, proof))

        return await read(self._database, prove)

    async def origin(self) -> str:
        """Return the origin of the log now; that of its key if the head was changed by hand."""
        try:
            head = await read(self._database, read_head)
            return self.keys.origin if head is None else self.keys.open(head.note).origin
        except ValueError:
            return self.keys.origin

    async def _submit(self, witness: WitnessClient, checkpoint: Checkpoint, note: str) -> bool:
        """Return True if the witness has cosigned the checkpoint."""
        old = self._cosigned.get(witness, 0)
        try:
            # A second time with the size that the witness names.
            for _ in range(2):
                if old > checkpoint.size:
                    raise WitnessError(f"{witness.key.name} has seen {old} leaves, and the log has {checkpoint.size}")
                proof = await read(self._database, partial(_prove_growth, old=old, new=checkpoint.size))
                answer = await witness.add_checkpoint(old, proof, note)
                if isinstance(answer, str):
                    row = {"size": checkpoint.size, "witness": witness.key.name, "note": note, "line": answer}
                    await write(self._database, partial(insert_new, table=tree_cosignatures, rows=[row]))
                    self._cosigned[witness] = checkpoint.size
                    return True
                old = answer
        except (WitnessError, LookupError) as exc:
            _log.error("the log is not witnessed: %s", exc)
        return False

    async def _heads(self) -> list[KeptHead]:
        """Return the places of the last checkpoint: that of this database, and that of all its copies."""
        heads = [] if self._head is None else [self._head]
        if self._head_of_copies is not None and (leaf := await read(self._database, _first_leaf)) is not None:
            heads.append(HeadFile(self._head_of_copies(leaf)))
        return heads

    async def _keep(self, checkpoint: Checkpoint) -> None:
        for head in await self._heads():
            try:
                await head.write(self.keys.sign(checkpoint))
            except OSError as exc:
                text = "the head of the log cannot be kept in %s, so no rollback is found by it: %s"
                _log.warning(text, head, exc.strerror)
                self._head = self._head_of_copies = None
                return

    async def _read_kept(self) -> list[tuple[str, Checkpoint]]:
        """Return the kept checkpoints that differ, with their places. Raises `RecordRolledBackError` for one of another log."""
        found: dict[Checkpoint, str] = {}
        for head in await self._heads():
            try:
                note = await head.read()
                if note is not None:
                    found.setdefault(self.keys.open(note), str(head))
            except (OSError, ValueError) as exc:
                raise RecordRolledBackError(f"the file {head} is not a checkpoint of this log: {exc}") from None
        return [(name, checkpoint) for checkpoint, name in found.items()]


def _first_leaf(connection: Connection) -> str | None:
    found = connection.execute(select(tree_leaves.c.commitment).where(tree_leaves.c.n == 0)).scalar()
    return None if found is None else encode(found)


def _prove_growth(connection: Connection, old: int, new: int) -> list[bytes]:
    return consistency_proof(stored_nodes(connection), old, new)
