"""What the processes share: a clock of the database that is set both ways, a server of tools, and three sets of rules."""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from graph_agent.chat.service import ChatService
from graph_agent.clock import SystemClock
from graph_agent.db import Database
from graph_agent.due.table import DueTable
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.tools import ToolResult
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.ports import SentCall
from graph_agent.question.approvals import ApprovalStore, OpensRequests
from graph_agent.record.settlements import UnknownOutcomes
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.turn.engine import LLMAgentEngine
from tests.scripted_turns import TableServer, done, failed, grouped

KEY = b"the key of the record of these processes only"
LIFETIME = timedelta(minutes=2)
"""The time for which a question to others is open."""
USUAL, STRICT, LAX = "usual", "strict", "lax"
_DEMANDS = {
    USUAL: "context.approvals.manager + context.approvals.finance >= 2",
    STRICT: "context.approvals.manager >= 1 && context.approvals.finance >= 1",
}
_CONDITIONS = """permit (principal, action, resource);
@id("{name}") forbid (principal, action == Action::"add_task", resource) unless {{ {demand} }};"""


def is_met(rules: str, roles: Sequence[str]) -> bool:
    """True if rules permit an addition that so many people have approved, each in a role. The lax ones ask nobody."""
    if rules == LAX:
        return True
    return len(roles) >= 2 and (rules == USUAL or {"manager", "finance"} <= {*roles})


class SteppedClock(SystemClock):
    """The clock of the database: that of the system, ahead by a number of seconds that forked processes share."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 8)

    @property
    def ahead(self) -> float:
        found: float = struct.unpack("d", self._shared[:])[0]
        return found

    def step(self, seconds: float) -> None:
        self._shared[:] = struct.pack("d", self.ahead + seconds)

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead)


@dataclass(frozen=True)
class Effect:
    """What the server of the tools has done for one operation key."""

    key: str
    target: str | None
    """The task that the call names; None if the call never takes effect."""
    rules: str
    """Those of the process that has sent the call."""


@dataclass
class LedgerServer(TableServer):
    """A server of tools that makes each operation once: a file of its key is the effect, or says that it never takes effect."""

    folder: Path = field(default_factory=Path)
    rules: str = ""

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        assert call.operation_key is not None
        assert deadline is not None
        return self._once(call.operation_key, target_of(call.arguments))

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        assert deadline is not None
        return self._once(call.operation_key, None)

    def effects(self) -> Iterator[Effect]:
        for path in self.folder.glob("*.json"):
            yield Effect(path.stem, *json.loads(path.read_text()))

    def _once(self, key: str, target: str | None) -> ToolResult:
        path, written = self.folder / f"{key}.json", self.folder / f"{key}.{os.getpid()}"
        written.write_text(json.dumps([target, self.rules]))
        # The file is there with its text or not at all, wherever this process is killed.
        with suppress(FileExistsError):
            os.link(written, path)
        if json.loads(path.read_text())[0] is None:
            return failed(ToolErrorCode.TOOL_EXECUTION_ERROR, "it never takes effect")
        return done({"receipt": "done"})


def target_of(arguments: Any) -> str:
    """Return the task that the arguments of a call name: no two questions name the same."""
    return str(arguments.get("description") or arguments["task_id"])


def open_chat(database: Database, tools: LedgerServer, rules: str) -> ChatService:
    """Return the chat service of one process with these rules."""
    text = Constitution.load(None).text
    # All accept the same answers, so that a process with other rules stores those that it does not count.
    evidence, conditions = AnswerEvidence(sign_in=True), None
    if rules in _DEMANDS:
        conditions = ConditionsFile(_CONDITIONS.format(name=rules, demand=_DEMANDS[rules]), roles=("finance", "manager"))
    else:
        text = text.replace("(requires confirmation)", "(without confirmation)")
    approvals = ApprovalStore(database, record_key=KEY, evidence=evidence)
    clock, unknown = SystemClock(), UnknownOutcomes(DueTable(database))
    audit = DatabaseAuditWriter(database, clock=clock, record_key=KEY, turn=OpensRequests(approvals), unknown=unknown)
    ports = grouped(
        config=AgentEngineConfig(timeout_seconds=20, approval_hours=LIFETIME / timedelta(hours=1)),
        audit=audit,
        clock=clock,
        signer=Signer(KEY),
        approvals=approvals,
        conditions=conditions,
    )
    engine = LLMAgentEngine(ScriptedAdapter([]), tools, text, **ports)
    return ChatService(engine, clock=clock, turns_per_minute=1_000_000)
