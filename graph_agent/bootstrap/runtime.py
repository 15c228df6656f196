"""A runtime: everything that serves turns, opened together and closed in order."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from pydantic import SecretStr

from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.bootstrap.adapters import choose_adapter
from graph_agent.bootstrap.secret import chain_key, signing_key
from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.toolbox import open_tools
from graph_agent.chat.service import ChatService
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.chat.conversations import ConfirmationStore
from graph_agent.db import Database
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.models.config import AgentEngineConfig
from graph_agent.policy.confirmation import Signer
from graph_agent.policy.constitution import Constitution
from graph_agent.ports import Clock, IdSource, LLMAdapter
from graph_agent.settings import Settings
from graph_agent.tools.executor import McpToolExecutor


@dataclass(frozen=True)
class Runtime:
    """What the faces (API and command line) use."""

    settings: Settings
    clock: Clock
    ids: IdSource
    task_database: Database
    """Tasks and conversations."""
    log_database: Database
    tools: McpToolExecutor
    adapter: LLMAdapter
    adapter_reason: str
    """Which model it is and why, in one line for people."""
    audit: DatabaseAuditWriter
    engine: LLMAgentEngine
    chat: ChatService


@runtime_checkable
class _Closing(Protocol):
    async def aclose(self) -> None: ...


@asynccontextmanager
async def open_runtime(
    settings: Settings,
    *,
    model: str | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    config: AgentEngineConfig | None = None,
) -> AsyncGenerator[Runtime]:
    """Everything wired and ready for turns; on leaving, running turns are ended first and the databases closed last.

    `model` is an explicit choice and goes before the settings; `config` replaces what the settings say of a turn. Raises
    `ConfigurationError` with one sentence.
    """
    clock, ids = clock or SystemClock(), ids or RandomIds()
    constitution = Constitution.load(settings.constitution)
    adapter, reason = choose_adapter(settings, model)
    async with AsyncExitStack() as stack:
        if isinstance(adapter, _Closing):
            stack.push_async_callback(adapter.aclose)
        stores = await stack.enter_async_context(open_stores(settings))
        tools = await stack.enter_async_context(open_tools(stores.tasks, clock=clock, ids=ids))
        audit = DatabaseAuditWriter(stores.log, clock=clock, chain_key=chain_key(settings))
        engine_of: Callable[..., LLMAgentEngine] = LLMAgentEngine
        if settings.otel:
            # Imported here: who does not trace does not load OpenTelemetry for it.
            from graph_agent.telemetry import TracedEngine, open_tracing

            engine_of = partial(TracedEngine, await stack.enter_async_context(open_tracing()))
        engine = engine_of(
            adapter,
            tools,
            constitution.text,
            config=config or AgentEngineConfig(timeout_seconds=settings.timeout_seconds),
            audit=audit,
            clock=clock,
            ids=ids,
            signer=Signer(signing_key(settings)),
            confirmations=ConfirmationStore(stores.tasks),
        )
        await engine.prepare()
        chat = ChatService(engine, stores.tasks, clock=clock, ids=ids, turns_per_minute=settings.turns_per_minute)
        stack.push_async_callback(chat.aclose)
        yield Runtime(
            settings=settings,
            clock=clock,
            ids=ids,
            task_database=stores.tasks,
            log_database=stores.log,
            tools=tools,
            adapter=adapter,
            adapter_reason=reason,
            audit=audit,
            engine=engine,
            chat=chat,
        )


@asynccontextmanager
async def temporary_runtime(
    settings: Settings,
    *,
    model: str | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    config: AgentEngineConfig | None = None,
) -> AsyncGenerator[Runtime]:
    """A runtime over an empty database in memory, gone afterwards; the model and the constitution are the settings' own.

    Tasks, conversations, limits and the ledger all belong to a user, so one user of it never used before is one empty world:
    any number of them fit into one temporary runtime.
    """
    alone = settings.model_copy(
        update={
            "database_url": "sqlite://",
            "log_database_url": "sqlite://",
            "secret": SecretStr(secrets.token_hex(32)),
        }
    )
    async with open_runtime(alone, model=model, clock=clock, ids=ids, config=config) as runtime:
        yield runtime
