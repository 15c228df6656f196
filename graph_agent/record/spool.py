"""The spool: a local file for terminal records that the log database did not take.

Each line is one record with its seal, which covers the line before it. A line is on the disk before the turn is answered.
Draining closes the decisions in order; a decision that is closed already stays as it is, so that a drain can be repeated.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from graph_agent.clock import run_with_timeout
from graph_agent.db import Database
from graph_agent.errors import RecordUnavailableError
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import DecisionRecord, OpenTurn
from graph_agent.ports import Clock
from graph_agent.record.chain import ChainKey, Sealer
from graph_agent.record.writer import DatabaseAuditWriter

_log = logging.getLogger(__name__)

MAX_BYTES = 64 * 1024 * 1024
LOG_SECONDS = 1.5
"""The time that the log database may take to close a decision before its record is spooled."""


class SpoolError(RecordUnavailableError):
    """The spool is full, cannot be read or written, or has been changed."""


class Spool:
    """One file, shared by the processes of a data folder. Its methods block for as long as the disk does."""

    def __init__(self, path: Path, key: ChainKey, *, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._sealer = Sealer(key)
        self._max_bytes = max_bytes

    def append(self, text: str) -> None:
        """Append a record and wait until it is on the disk. Raises `SpoolError`."""
        with self._locked() as file:
            content = os.pread(file, self._max_bytes, 0)
            # A last line without its line break was never acknowledged: the process died while writing it. It is overwritten.
            whole = content[: content.rfind(b"\n") + 1]
            lines = whole.splitlines()
            previous = json.loads(lines[-1])["mac"] if lines else ""
            line = json.dumps({"mac": _seal(self._sealer, len(lines), previous, text), "record": text}).encode() + b"\n"
            if len(whole) + len(line) > self._max_bytes:
                raise SpoolError("the spool is full")
            os.ftruncate(file, len(whole))
            os.pwrite(file, line, len(whole))
            os.fsync(file)

    def records(self) -> list[str]:
        """Return the spooled records in order. Raises `SpoolError` if a line was changed."""
        if not self._path.exists():
            return []
        with self._locked() as file:
            content = os.pread(file, self._max_bytes, 0)
        records, previous = [], ""
        for n, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines()):
            stored = json.loads(line)
            if not self._sealer.accepts(stored["mac"], partial(_seal, n=n, previous=previous, text=stored["record"])):
                raise SpoolError(f"line {n + 1} of {self._path} is not as it was written")
            records.append(stored["record"])
            previous = stored["mac"]
        return records

    def clear(self, drained: int) -> None:
        """Empty the file if it contains only the first `drained` records.

        If records were appended meanwhile, all stay; the next drain repeats the first ones, which changes nothing.
        """
        with self._locked() as file:
            if os.pread(file, self._max_bytes, 0).count(b"\n") == drained:
                os.ftruncate(file, 0)
                os.fsync(file)

    def require_usable(self) -> None:
        """Raise `SpoolError` if a record could not be appended now."""
        with self._locked() as file:
            if os.fstat(file).st_size >= self._max_bytes // 2:
                raise SpoolError("the spool is half full")

    @contextmanager
    def _locked(self) -> Iterator[int]:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            raise SpoolError("the spool cannot be opened") from exc
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file
        except (OSError, ValueError, KeyError) as exc:
            raise SpoolError("the spool cannot be read or written") from exc
        finally:
            os.close(file)


def _seal(sealer: Sealer, n: int, previous: str, text: str) -> str:
    return sealer.compute("spool", n, previous, text=text)


class SpoolingAuditWriter(DatabaseAuditWriter):
    """A `DatabaseAuditWriter` that spools a terminal record which the database does not take in time."""

    def __init__(self, database: Database, spool: Spool, *, clock: Clock | None = None, chain_key: ChainKey = None) -> None:
        super().__init__(database, clock=clock, chain_key=chain_key)
        self.spool = spool

    async def close_decision_log(self, record: DecisionRecord) -> DecisionRecord:
        try:
            return await run_with_timeout(LOG_SECONDS, super().close_decision_log(record))
        except (RecordUnavailableError, TimeoutError, ConnectionError):
            _log.warning("the log database does not answer; decision %s is spooled", record.header.decision_id)
        await asyncio.to_thread(self.spool.append, canonical_json(record.to_json()))
        return record

    async def load(self, decision_id: str) -> OpenTurn | DecisionRecord | None:
        found = await super().load(decision_id)
        if not isinstance(found, OpenTurn):
            return found
        # A turn that has ended must not be continued because its end is still in the spool.
        spooled = map(DecisionRecord.model_validate_json, await asyncio.to_thread(self.spool.records))
        return next((record for record in spooled if record.header.decision_id == decision_id), found)

    async def count_spooled(self) -> int:
        """Return the number of records in the spool. Raises `SpoolError`."""
        return len(await asyncio.to_thread(self.spool.records))

    async def drain(self) -> int:
        """Close the spooled decisions in order; return how many there were. Raises `RecordError`."""
        records = await asyncio.to_thread(self.spool.records)
        for text in records:
            record = DecisionRecord.model_validate_json(text)
            stored = await super().close_decision_log(record)
            if stored != record:
                _log.error("decision %s was closed elsewhere before its spooled record", record.header.decision_id)
        if records:
            await asyncio.to_thread(self.spool.clear, len(records))
        return len(records)
