"""A complete installation for tests: a database, the task server over MCP, chat services of several simulated processes."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from graph_agent.bootstrap.record_tree import log_keys
from graph_agent.bootstrap.runtime import Runtime
from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.toolbox import open_tools
from graph_agent.chat.approval_notices import Webhook
from graph_agent.chat.service import ChatService
from graph_agent.clock import ManualClock, SystemClock
from graph_agent.db import Database
from graph_agent.llm.embedded.planning import EmbeddedAdapter
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolDeclaration
from graph_agent.models.record import DecisionRecord
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.answer_evidence import AnswerEvidence
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.ports import Clock, LLMAdapter, ToolServer
from graph_agent.question.approvals import ApprovalStore, OpensRequests
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings
from graph_agent.task_server.store import TaskPages
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from tests.fact_lines import split
from tests.scripted_turns import grouped

D = TypeVar("D", bound=Database)


@dataclass
class Environment:
    """The database and tools that all simulated processes share."""

    settings: Settings
    database: Database
    tools: McpServerGroup
    clock: Clock
    record_key: bytes | None = None
    engines: list[LLMAgentEngine] = field(default_factory=list)
    timeout_seconds: float = 30
    """The deadline of a turn, unless an engine is given another one."""
    model: Callable[[], LLMAdapter] = EmbeddedAdapter
    """Returns the model of an engine that is given none."""
    constitution: str = ""
    """The constitution of an engine that is given none; empty for the shipped one."""

    def engine(
        self,
        model: LLMAdapter | None = None,
        timeout_seconds: float | None = None,
        database: Database | None = None,
        graph: Any = None,
        conditions: ConditionsFile | None = None,
        tools: ToolServer | None = None,
        constitution: str | None = None,
        evidence: AnswerEvidence | None = None,
        rule_set: RuleSet | None = None,
    ) -> LLMAgentEngine:
        """Return the engine of another process. The text of the conditions may begin with lines of facts."""
        approvals = ApprovalStore(database or self.database, record_key=self.record_key, evidence=evidence, notices=True)
        constitution = constitution or self.constitution or Constitution.load(None).text
        if conditions is not None:
            facts, rules = split(conditions.text)
            constitution, conditions = f"{constitution}\n{facts}", replace(conditions, text=rules)
        engine = LLMAgentEngine(
            model or self.model(),
            tools or self.tools,
            constitution,
            **grouped(
                config=AgentEngineConfig(timeout_seconds=timeout_seconds or self.timeout_seconds),
                audit=DatabaseAuditWriter(
                    database or self.database, clock=self.clock, record_key=self.record_key, turn=OpensRequests(approvals)
                ),
                clock=self.clock,
                signer=Signer(b"a key for tests only"),
                confirmations=ConfirmationStore(self.database, record_key=self.record_key),
                approvals=approvals,
                graph=graph,
                conditions=conditions,
                rule_set=rule_set,
            ),
        )
        self.engines.append(engine)
        return engine

    def chat(self, model: LLMAdapter | None = None, turns_per_minute: int = 1000, **engine: Any) -> ChatService:
        """Return the chat service of another process."""
        return ChatService(self.engine(model, **engine), clock=self.clock, turns_per_minute=turns_per_minute)

    def runtime(self, model: LLMAdapter | None = None, **choices: Any) -> Runtime:
        """Return the runtime of another process, as the API uses it."""
        model = model or self.model()
        turns_per_minute = choices.pop("turns_per_minute", 1000)
        settings = self.settings.model_copy(update=choices.pop("settings", {}))
        webhook: Webhook | None = choices.pop("webhook", None)
        engine = self.engine(model, **choices)
        audit = engine.audit
        assert isinstance(audit, DatabaseAuditWriter)
        return Runtime(
            given=settings,
            clock=self.clock,
            database=self.database,
            log_reads=choices.get("database", self.database),
            tools=self.tools,
            adapter_reason="a test's",
            audit=audit,
            tree=RecordTree(self.database, log_keys(settings), key=self.record_key, clock=self.clock),
            engine=engine,
            chat=ChatService(engine, clock=self.clock, turns_per_minute=turns_per_minute, webhook=webhook),
            tasks=TaskPages(self.database),
        )

    def use_clock(self, clock: Clock) -> None:
        """Give this clock to the database and to all processes that start from now on."""
        self.clock = self.database.clock = clock

    def open_database(self, kind: type[D]) -> D:
        """Open the database for one process, which closes it."""
        opened = kind.open(self.settings.database)
        opened.clock = self.database.clock
        return opened

    async def decisions(self) -> list[tuple[str, str, str]]:
        """Return decision type, outcome and status of every row, in order."""
        query = "SELECT decision_type, outcome_category, status FROM decision_logs ORDER BY created_at"
        return await _rows(self.database, query)

    async def records(self) -> list[DecisionRecord]:
        """Return the records of the closed decisions, in order."""
        rows = await _rows(self.database, "SELECT record FROM decision_logs WHERE record IS NOT NULL ORDER BY created_at")
        return [DecisionRecord.model_validate_json(record) for (record,) in rows]

    async def descriptions(self, user: str = "ann") -> list[str]:
        """Return the user's tasks, oldest first."""
        found = await _rows(self.database, f"SELECT description FROM tasks WHERE user_id = '{user}' ORDER BY number")
        return [description for (description,) in found]

    async def task_id(self, description: str) -> str:
        [(task_id,)] = await _rows(self.database, f"SELECT id FROM tasks WHERE description = '{description}'")
        return str(task_id)

    async def turns(self) -> list[tuple[str, int]]:
        """Return state and attempt of every turn."""
        return await _rows(self.database, "SELECT state, attempt FROM turns ORDER BY created_at")

    async def said(self) -> list[str]:
        found = await _rows(self.database, "SELECT content FROM messages ORDER BY number")
        return [content for (content,) in found]


async def migrated(folder: Path, url: str = "") -> Path:
    """Create the empty database of a home, or at `url`, to copy it, because a migration takes longer than most tests."""
    async with open_stores(Settings(GRAPH_AGENT_HOME=folder, DATABASE_URL=url)):
        return folder


@asynccontextmanager
async def open_environment(
    folder: Path, template: Path | None, clock: Clock | None = None, url: str = ""
) -> AsyncGenerator[Environment]:
    """Yield an installation in `folder` with a copy of the database in `template`, or with the empty one at `url`."""
    if template is not None:
        shutil.copytree(template, folder, dirs_exist_ok=True)
    found = Settings(GRAPH_AGENT_HOME=folder, DATABASE_URL=url)
    clock = clock or SystemClock()
    async with open_stores(found) as stores, open_tools(stores.database, found, clock=clock) as tools:
        environment = Environment(found, stores.database, tools, clock)
        if isinstance(clock, ManualClock):
            environment.use_clock(clock)
        yield environment
        for engine in environment.engines:
            await engine.aclose()


class GatedModel(ScriptedAdapter):
    """A scripted model whose answers wait for the gate. `asked` can be acquired once for each call."""

    def __init__(self, responses: Sequence[LLMResponse]) -> None:
        super().__init__(responses)
        self.asked = asyncio.Semaphore(0)
        self.gate = asyncio.Event()

    async def generate(self, messages: list[LLMMessage], tools: list[ToolDeclaration], *args: Any, **named: Any) -> LLMResponse:
        self.asked.release()
        await self.gate.wait()
        return await super().generate(messages, tools, *args, **named)


class LosingModel(ScriptedAdapter):
    """A model that closes a database before its last answer."""

    def __init__(self, script: list[LLMResponse], database: Database) -> None:
        super().__init__(script)
        self._left = len(script)
        self._database = database

    async def generate(self, messages: list[LLMMessage], tools: list[ToolDeclaration], *args: Any, **named: Any) -> LLMResponse:
        self._left -= 1
        if not self._left:
            await asyncio.to_thread(self._database.close_now)
        return await super().generate(messages, tools, *args, **named)


async def _rows(database: Database, query: str) -> list[Any]:
    return await database.read(lambda connection: [tuple(row) for row in connection.exec_driver_sql(query)])
