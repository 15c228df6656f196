"""The tree of one database: it is sealed, guarded against a rollback, and shown to witnesses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sqlalchemy import Connection

from graph_agent.db import Database
from graph_agent.db.prepared import insert_new
from graph_agent.db.private_file import replace_private_file
from graph_agent.errors import RecordRolledBackError
from graph_agent.ports import Clock
from graph_agent.record.sealer import RecordKey, Sealer
from graph_agent.record.statements import read, write
from graph_agent.record.tree.keys import LogKeys
from graph_agent.record.tree.reading import read_head, stored_nodes
from graph_agent.record.tree.sealing import TreeSealer
from graph_agent.record.tree.statements import Statement, add_statement
from graph_agent.record.tree.tables import tree_cosignatures
from graph_agent.tlog.checkpoint import Checkpoint
from graph_agent.tlog.merkle import consistency_proof
from graph_agent.tlog.note import encode
from graph_agent.tlog.witness_client import WitnessClient, WitnessError

_log = logging.getLogger(__name__)


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
        head: Path | None = None,
        witnesses: Sequence[WitnessClient] = (),
    ) -> None:
        """`key` makes the MACs of pending rows."""
        self.keys, self.key, self.witnesses = keys, key, witnesses
        self._database, self._head = database, head
        self._sealer = TreeSealer(keys, Sealer(key), clock=clock)
        self._sealing = asyncio.Lock()
        self._cosigned: dict[WitnessClient, int] = {}

    async def seal(self) -> int:
        """Seal everything that waits; return the size of the tree if it has grown, else 0. Raises `RecordRolledBackError`."""
        size = 0
        async with self._sealing:
            if self._sealer.seen is None:
                # Before it signs its first checkpoint, this process compares the tree with what was seen elsewhere.
                seen = [checkpoint for _, checkpoint, _ in await self.seen_elsewhere()]
                self._sealer.seen = await read(self._database, partial(self._sealer.require_continuation, seen=seen))
            while (checkpoint := await write(self._database, self._sealer.seal)) is not None:
                self._sealer.seen, size = checkpoint, checkpoint.size
            if size:
                await self._keep(self._sealer.seen)
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
        if self._head is not None and (kept := await asyncio.to_thread(self._read_kept, self._head)) is not None:
            seen.append((str(self._head), kept, 0))
        return seen

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

        def work(connection: Connection) -> tuple[str, list[str]]:
            new = self._sealer.require_continuation(connection, [old])
            head = read_head(connection)
            proof = _prove_growth(connection, old.size, new.size)
            return "" if head is None else head.note, list(map(encode, proof))

        return await read(self._database, work)

    async def state(self, statement: Statement) -> None:
        """Add a statement to the log."""
        await write(self._database, partial(add_statement, statement=statement, sealer=Sealer(self.key)))

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

    async def _keep(self, checkpoint: Checkpoint) -> None:
        if self._head is not None:
            await asyncio.to_thread(self._write_kept, self._head, self.keys.sign(checkpoint))

    def _write_kept(self, path: Path, note: str) -> None:
        try:
            with replace_private_file(path) as file:
                file.write(note.encode())
        except OSError as exc:
            _log.warning("the head of the log cannot be kept in %s, so no rollback is found by it: %s", path, exc.strerror)
            self._head = None

    def _read_kept(self, path: Path) -> Checkpoint | None:
        """Return the checkpoint in the file; None without one. Raises `RecordRolledBackError` if it is not one of this log."""
        try:
            return self.keys.open(path.read_text(encoding="utf-8")) if path.exists() else None
        except (OSError, ValueError) as exc:
            raise RecordRolledBackError(f"the file {path} is not a checkpoint of this log: {exc}") from None


def _prove_growth(connection: Connection, old: int, new: int) -> list[bytes]:
    return consistency_proof(stored_nodes(connection), old, new)
