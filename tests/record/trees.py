"""The tree of a test's log: keys, turns that are recorded in it, and a witness that serves over HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from graph_agent.api.server import HttpServerConfig
from graph_agent.api.witness import witness_app
from graph_agent.audit.retention import PruneReport, prune
from graph_agent.bootstrap.secret import derive_record_key
from graph_agent.clock import ManualClock, SequentialIds, SystemClock
from graph_agent.db import Database
from graph_agent.models.llm import LLMResponse
from graph_agent.models.record import DecisionRecord
from graph_agent.ports import IdSource
from graph_agent.record.tamper.verify import verify_log
from graph_agent.record.tamper.violations import VerifyReport, ViolationKind
from graph_agent.record.tree.leaves import RecordKey
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.tlog.checkpoint import LogKeys
from graph_agent.tlog.note import KeyType, SigningKey, VerifierKey
from graph_agent.tlog.witness import Witness, WitnessClient, open_witness_state
from tests.scripted_turns import asks, calls, engine_of
from tests.serving import ServerWithoutSignals

KEY = derive_record_key(b"a secret of sixteen bytes at least")
LOG_KEY = SigningKey.generate("tasks.example/log", KeyType.LOG)
WITNESS_KEY = SigningKey.generate("auditor.example/w1", KeyType.COSIGNATURE)


def tree_of(log: Database, key: RecordKey = KEY, clock: ManualClock | None = None, **more: Any) -> RecordTree:
    """Return the tree as another process opens it."""
    return RecordTree(log, LogKeys([LOG_KEY]), key=key, clock=clock or ManualClock(), **more)


async def verified(log: Database, tree: RecordTree | None = None, *, key: RecordKey = KEY, **more: Any) -> VerifyReport:
    """Verify a log, against what was seen of it elsewhere if there is a `tree`."""
    seen = [] if tree is None else await tree.seen_elsewhere()
    return await verify_log(log, **{"keys": LogKeys([LOG_KEY]), "key": key, "seen": seen, **more})


async def pruned(log: Database, before: datetime, *, key: RecordKey = None, **more: Any) -> PruneReport:
    """Seal what waits, and prune."""
    await tree_of(log, key).seal()
    return await prune(log, before, now=ManualClock().now(), key=key, **more)


def found(report: VerifyReport) -> list[tuple[ViolationKind, str | None]]:
    return [(violation.kind, violation.decision_id) for violation in report.violations]


class LogFiller:
    """Runs turns that one writer records in a log database. Several fillers may share the source of ids."""

    def __init__(self, writer: DatabaseAuditWriter, ids: IdSource) -> None:
        self._writer = writer
        self._ids = ids
        self._clock = ManualClock()

    @classmethod
    def on(cls, database: Database) -> LogFiller:
        return cls(DatabaseAuditWriter(database, record_key=KEY), SequentialIds())

    async def turn(self, message: str, *script: LLMResponse) -> DecisionRecord:
        self._clock.advance(seconds=1)
        engine = engine_of(*script, audit=self._writer, ids=self._ids, clock=self._clock)
        return (await engine.run(asks(message))).record

    async def fill(self, turns: int) -> list[str]:
        """Run this many turns, every third of them with a tool call, and return the ids of their decisions."""
        names = []
        for number in range(turns):
            added = () if number % 3 else (calls(("add_task", {"description": f"task {number}"})),)
            record = await self.turn(f"hello {number}", *added, says(f"Hello {number}."))
            names.append(record.header.decision_id)
        return names


@asynccontextmanager
async def running_witness(folder: Path, *logs: VerifierKey) -> AsyncIterator[WitnessClient]:
    """Serve a witness of these logs on a loopback port, by default of `LOG_KEY`'s."""
    database = open_witness_state(Database.open(f"sqlite:///{folder / 'witness.db'}"))
    app = witness_app(Witness(database, WITNESS_KEY, logs or [LOG_KEY.verifier], clock=SystemClock()))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = ServerWithoutSignals(HttpServerConfig(app, lifespan="off", timeout_graceful_shutdown=1))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield WitnessClient(f"http://127.0.0.1:{listener.getsockname()[1]}", WITNESS_KEY.verifier)
        finally:
            server.should_exit = True
            await serving
            await database.close()
