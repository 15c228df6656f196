"""A runtime: everything that serves turns, opened together and closed in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from graph_agent.bootstrap.adapters import open_adapter
from graph_agent.bootstrap.agent_services import open_services
from graph_agent.bootstrap.database_rules import has_shipped_tools
from graph_agent.bootstrap.extras import import_opentelemetry
from graph_agent.bootstrap.maintenance import maintenance_jobs
from graph_agent.bootstrap.rules_source import InstalledRules
from graph_agent.bootstrap.toolbox import require_functions
from graph_agent.chat.approval_notices import Webhook
from graph_agent.chat.endings import TurnEndings
from graph_agent.chat.service import ChatService
from graph_agent.chat.settling import OutcomeSettler
from graph_agent.db import Database
from graph_agent.db.notifications import open_notifications
from graph_agent.due.wakeups import announced
from graph_agent.graph.build import CompiledGraph, shipped_graph
from graph_agent.models.config import AgentEngineConfig
from graph_agent.ports import Clock
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings
from graph_agent.task_server.store import TaskPages
from graph_agent.tools.identity import UserHeaders
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.hooks import TurnHook
from graph_agent.turn.sent_calls import SentCalls
from graph_agent.turn.setup import EngineOptions

_CHANNEL = "graph_agent_turns"
"""The PostgreSQL channel on which the ends of followed turns, and due work, are announced."""


@dataclass(frozen=True)
class Runtime:
    """The open services that the API and the command line use."""

    given: Settings
    """The settings with which it was opened."""
    clock: Clock
    database: Database
    """Tasks, conversations and the record."""
    log_reads: Database
    """A replica of the record, or the database itself."""
    tools: McpServerGroup
    adapter_reason: str
    """The model and why it was chosen, in one line for the user."""
    audit: DatabaseAuditWriter
    tree: RecordTree
    engine: LLMAgentEngine
    chat: ChatService
    build_graph: Callable[[], CompiledGraph] = shipped_graph
    tasks: TaskPages | None = None
    """The pages of the shipped task server; None if other MCP servers are used."""
    started: asyncio.Future[None] | None = None
    """Ends when every MCP server has started or failed; with an error if a server does not fit the constitution."""

    rules: InstalledRules | None = None
    """The source of the rules, which may be replaced meanwhile."""

    @property
    def settings(self) -> Settings:
        """The settings, with the rules in force."""
        return self.given if self.rules is None else self.rules.settings


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    model: str | None = None,
    clock: Clock | None = None,
    config: AgentEngineConfig | None = None,
    user_headers: UserHeaders | None = None,
    workers: int = 1,
    start_seconds: float | None = None,
    build: Callable[[], CompiledGraph] = shipped_graph,
) -> AsyncGenerator[Runtime]:
    """Open everything that turns need. On exit running turns are ended first and the database is closed last.

    `model` overrides the model of the settings, `config` overrides their limits of a turn.
    `user_headers` returns the headers by which an MCP server over HTTP knows a user. `workers` is the number of processes that
    share the limits of one server. MCP servers that have not started after `start_seconds` go on starting meanwhile; without a
    limit they are waited for. `build` is a function of a module that returns a graph, such as one with your own states.
    Raises `ConfigurationError` with one sentence.
    """
    async with AsyncExitStack() as stack:
        adapter, reason = await stack.enter_async_context(open_adapter(settings, model))
        opened = open_services(settings, clock=clock, user_headers=user_headers)
        services, stores, tree = await stack.enter_async_context(opened)
        assert services.rules is not None
        rules = services.rules
        clock, tools, audit = services.ports.clock, services.tools, services.ports.audit
        assert isinstance(audit, DatabaseAuditWriter)
        hooks: list[Callable[[], TurnHook]] = []
        if settings.otel:
            otlp, spans = (import_opentelemetry(module) for module in ("otlp", "spans"))
            hooks.append(spans.turn_spans(await stack.enter_async_context(otlp.open_tracing()), adapter))
        engine = services.engine(adapter, EngineOptions(config or services.config, graph=build(), hooks=hooks))
        started = asyncio.ensure_future(_start(tools, engine))
        stack.push_async_callback(_cancel, started)
        await asyncio.wait({started}, timeout=start_seconds)
        if started.done():
            await started
        settler = OutcomeSettler(
            tools,
            stores.database,
            clock=clock,
            record_key=tree.key,
            sent_calls=SentCalls(engine),
        )
        notifications = open_notifications(stores.database, settings.listen_url or settings.database, _CHANNEL)
        await stack.enter_async_context(announced(stores.database, notifications))
        chat = ChatService(
            engine,
            clock=clock,
            turns_per_minute=settings.turns_per_minute,
            disclosure=settings.disclosed,
            files=rules.settings.rule_files,
            approval_messages=settings.approval_messages,
            webhook=_webhook(settings),
            processes=workers,
            endings=TurnEndings(notifications),
            maintenance=maintenance_jobs(stores, tree, clock=clock, days=settings.retention_days),
            settler=settler,
        )
        stack.push_async_callback(chat.aclose)
        yield Runtime(
            given=rules.settings,
            rules=rules,
            clock=clock,
            database=stores.database,
            log_reads=stores.log_reads,
            tools=tools,
            adapter_reason=reason,
            audit=audit,
            tree=tree,
            engine=engine,
            chat=chat,
            build_graph=build,
            tasks=TaskPages(stores.database) if has_shipped_tools(rules.settings) else None,
            started=started,
        )


def _webhook(settings: Settings) -> Webhook | None:
    if settings.webhook_url is None or settings.webhook_key is None:
        return None
    page = (settings.public_url or "").rstrip("/")
    return Webhook(settings.webhook_url, settings.webhook_key, settings.webhook_texts, page)


async def _start(tools: McpServerGroup, engine: LLMAgentEngine) -> None:
    # Each server has its own time limit to connect, which can be longer than the engine's limit of a call.
    await tools.start()
    require_functions(tools)
    await engine.prepare()


async def _cancel(task: asyncio.Future[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
