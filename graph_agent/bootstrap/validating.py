"""The validation service with the chosen model and the shipped task server on an empty database; reports go to the log."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from graph_agent.audit.drift.baselines import BaselineService
from graph_agent.bootstrap.adapters import open_adapter
from graph_agent.bootstrap.secret import chain_keys
from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.toolbox import open_tools, pins_of
from graph_agent.db import Database, migrate
from graph_agent.models.config import AgentEngineConfig
from graph_agent.policy.constitution import Constitution
from graph_agent.settings import Settings
from graph_agent.task_server.case_tasks import CaseTasks
from graph_agent.validation.runner import EngineRunner
from graph_agent.validation.service import ValidationService


@dataclass(frozen=True, slots=True)
class Validation:
    """An open validation service; `adapter_reason` says in one line which model it validates."""

    service: ValidationService
    baselines: BaselineService
    adapter_reason: str


@asynccontextmanager
async def open_validation(settings: Settings, *, model: str | None = None) -> AsyncGenerator[Validation]:
    """Open a validation service. Raises `ConfigurationError`."""
    constitution = Constitution.load(settings.constitution)
    async with AsyncExitStack() as stack:
        adapter, reason = await stack.enter_async_context(open_adapter(settings, model))
        stores = await stack.enter_async_context(open_stores(settings))
        tasks = Database.open("sqlite://")
        stack.push_async_callback(tasks.close)
        migrate(tasks, "graph_agent.task_server")
        tools = await stack.enter_async_context(
            open_tools(tasks, file=settings.mcp, constitution=constitution, pins=pins_of(settings))
        )
        config = AgentEngineConfig(timeout_seconds=settings.timeout_seconds)
        runner = EngineRunner(adapter, tools, constitution.text, CaseTasks(tools), config=config)
        keys = chain_keys(settings)
        service = ValidationService(runner, stores.log, chain_key=keys)
        yield Validation(service, BaselineService(stores.log, chain_key=keys), reason)
