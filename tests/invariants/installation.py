"""A complete installation on SQLite, and faults that can be injected into its ports."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graph_agent.clock import ManualClock, RandomIds
from graph_agent.db import Database
from graph_agent.ledger.operations import OperationState
from graph_agent.models.decision import DecisionType
from graph_agent.models.record import CallDisposition, DecisionRecord
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.ports import LLMAdapter
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.question.tables import metadata as question_tables
from graph_agent.record.tables import metadata as log_metadata
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.task_server.server import build_task_server
from graph_agent.task_server.store import metadata as task_tables
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine
from tests.invariants.checks import CANARY, check_text
from tests.permission import permitted
from tests.scripted_turns import SECRET, grouped


class Fault(Exception):  # noqa: N818 (it represents an exception of third-party code)
    """An exception whose text must not appear in any reply or log line."""

    def __init__(self) -> None:
        super().__init__(f"{CANARY} postgresql://user:password@host/db\nERROR forged")


FAULTS: dict[str, Callable[[], BaseException]] = {
    "exception": Fault,
    "stray cancellation": asyncio.CancelledError,
    "group": lambda: BaseExceptionGroup(CANARY, [asyncio.CancelledError()]),
}
"""The kinds of exception that a port may raise."""


LOG_WRITES = {"write_opening", "write_progress", "close_decision_log"}
"""The operations of the audit writer."""


@dataclass
class FaultInjector:
    """Makes the `at`-th of the guarded operations fail, once, `before` or after it has taken place."""

    at: int = 0
    before: bool = True
    count: int = 0
    failed: str | None = None
    """The name of the operation that was made to fail."""
    make: Callable[[], BaseException] = Fault
    only: Callable[[str], bool] = bool
    """Selects the operations that count, by name."""

    def around(self, port: Any, *names: str) -> Any:
        """Return `port` with methods `names` that can fail."""
        return _FaultyPort(port, frozenset(names), self)


class _FaultyPort:
    def __init__(self, port: Any, names: frozenset[str], faults: FaultInjector) -> None:
        self._port = port
        self._names = names
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in self._names:
            return method
        faults = self._faults

        @functools.wraps(method)
        async def call(*arguments: Any, **named: Any) -> Any:
            faults.count += faults.only(name)
            fails = faults.only(name) and faults.count == faults.at
            faults.failed = name if fails else faults.failed
            if fails and faults.before:
                raise faults.make()
            result = await method(*arguments, **named)
            if fails:
                raise faults.make()
            return result

        return call


@dataclass
class Installation:
    """The real task server, log and confirmation store on SQLite, shared by any number of engines."""

    tasks: Database
    log: Database
    server: McpToolExecutor
    clock: ManualClock = field(default_factory=ManualClock)
    seeded: set[str] = field(default_factory=set)
    """The operation keys by which the test created its tasks."""

    def engine(self, model: LLMAdapter, faults: FaultInjector | None = None, **settings: Any) -> LLMAgentEngine:
        """Return the engine of one more process."""
        audit: Any = DatabaseAuditWriter(self.log, clock=self.clock)
        tools: Any = self.server
        confirmations: Any = ConfirmationStore(self.tasks)
        if faults is not None:
            model = faults.around(model, "generate")
            tools = faults.around(tools, "execute", "settle", "preview")
            confirmations = faults.around(confirmations, "consume")
            audit = faults.around(audit, *LOG_WRITES)
        settings.setdefault("audit", audit)
        settings.setdefault("clock", self.clock)
        return LLMAgentEngine(
            model,
            tools,
            Constitution.load().text,
            **grouped(ids=RandomIds(), signer=Signer(SECRET), confirmations=confirmations, **settings),
        )

    async def add(self, user_id: str, description: str) -> str:
        """Create a task and return its id."""
        key = f"seed {len(self.seeded)}"
        self.seeded.add(key)
        result = await self.server.execute(permitted("add_task", {"description": description}, user_id, key))
        assert isinstance(result.data, dict)
        identity: str = result.data["task"]["id"]
        return identity

    async def descriptions(self, user_id: str) -> list[str]:
        """Return the descriptions of the user's tasks in alphabetical order."""
        rows = await self.rows(self.tasks, f"SELECT description FROM tasks WHERE user_id = '{user_id}' ORDER BY description")
        return [description for (description,) in rows]

    async def rows(self, database: Database, statement: str) -> list[tuple[Any, ...]]:
        return await database.read(lambda connection: [tuple(row) for row in connection.exec_driver_sql(statement).all()])

    async def check(self) -> None:
        """Check that record and ledger agree once every turn has been brought to its end."""
        assert await self.rows(self.log, "SELECT decision_id FROM decision_logs WHERE status = 'PENDING'") == []
        assert await self.rows(self.log, "SELECT decision_id FROM record_entries") == []
        stored = await self.rows(self.log, "SELECT record FROM decision_logs")
        operations = await self.rows(self.tasks, "SELECT key, user_id, tool_name, state FROM operations")
        done = {
            key: (user_id, name)
            for key, user_id, name, state in operations
            if state == OperationState.DONE and key not in self.seeded
        }
        reported = set()
        for (text,) in stored:
            record = DecisionRecord.model_validate_json(text)
            decision_id = record.header.decision_id
            check_text(record)
            rows = await self.rows(
                self.log,
                f"SELECT sequence, tool_name, disposition, success FROM tool_invocation_logs "
                f"WHERE decision_id = '{decision_id}' ORDER BY sequence",
            )
            assert rows == [(call.sequence, call.tool_name, call.disposition, call.success) for call in record.invocations]
            for call in record.invocations:
                key = f"{decision_id}:{call.sequence}"
                if record.decision.decision_type is DecisionType.EXECUTE_PENDING or record.decision.confirmed:
                    assert record.header.context.pending_confirmation is not None
                    pending = record.header.context.pending_confirmation
                    key = pending.operation_key(call.sequence) if call.sequence <= len(pending.each) else key
                if call.disposition is not CallDisposition.EXECUTED or call.tool_name == "list_tasks":
                    assert key not in done or call.disposition is CallDisposition.EXECUTED, "executed against the record"
                elif call.success:
                    assert done.get(key) == (record.header.context.user_id, call.tool_name), "reported as done, but was not"
                    reported.add(key)
                elif call.error_code in ("TIMEOUT_ERROR", "UNKNOWN_ERROR"):
                    reported.add(key)
                else:
                    assert key not in done, "reported as not done, but was"
        assert done.keys() <= reported, "no record reports an effect that the ledger has"


@asynccontextmanager
async def open_installation(folder: Path) -> AsyncGenerator[Installation]:
    """Create an installation in the existing `folder`."""
    tasks, log = Database.open(f"sqlite:///{folder / 'tasks.db'}"), Database.open(f"sqlite:///{folder / 'log.db'}")
    tasks.write_now(task_tables.create_all)
    tasks.write_now(question_tables.create_all)
    log.write_now(log_metadata.create_all)
    clock = ManualClock()
    server = McpToolExecutor(build_task_server(tasks, clock))
    try:
        await server.start()
        yield Installation(tasks, log, server, clock)
    finally:
        await server.aclose()
        tasks.close_now()
        log.close_now()
