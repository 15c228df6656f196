"""The services that every turn needs, opened from the settings: for a runtime, and for `run_agent` with its adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache

from graph_agent.bootstrap.approvals import open_approvals
from graph_agent.bootstrap.opened import OpenedByTask
from graph_agent.bootstrap.plan_solver import plan_solver
from graph_agent.bootstrap.record_tree import record_tree, seal_if_possible
from graph_agent.bootstrap.rule_settings import constitution_of
from graph_agent.bootstrap.rules_source import InstalledRules, engine_rules, settings_in_force
from graph_agent.bootstrap.secret import record_keys, signing_keys
from graph_agent.bootstrap.stores import Stores, open_stores
from graph_agent.bootstrap.toolbox import open_tools
from graph_agent.clock import SystemClock
from graph_agent.due.table import DueTable
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.rule_set import RuleSet
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.ports import Clock, LLMAdapter, ToolExecutor, ToolServer
from graph_agent.question.approvals import OpensRequests
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.record.settlements import UnknownOutcomes
from graph_agent.record.tree.service import RecordTree
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings, read_settings
from graph_agent.tools.identity import UserHeaders
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EngineOptions, EnginePorts


@dataclass(frozen=True)
class AgentServices:
    """The services of a turn that its caller does not choose."""

    constitution: str
    tools: McpServerGroup
    ports: EnginePorts
    config: AgentEngineConfig = field(default_factory=AgentEngineConfig)
    max_iterations: int | None = None
    """The limit for the rounds of a turn that the operator has set, also for `run_agent`."""
    conditions: ConditionsFile | None = None
    rule_set: RuleSet | None = None
    """The rules of the installation. The prompt and the limits that a caller of `run_agent` gives are no part of them."""
    rules: InstalledRules | None = None
    """The source of the rules, which may be replaced while the services are open."""

    async def renewed(self) -> AgentServices:
        """Return these services under the rules in force now. Raises `ServiceError` RULES_UNAVAILABLE."""
        if self.rules is None:
            return self
        current = await self.rules.renew()
        return replace(
            self,
            constitution=current.constitution.text,
            conditions=current.conditions,
            rule_set=current.rule_set,
            config=current.config,
            max_iterations=self.rules.settings.max_iterations,
        )

    def engine(
        self, adapter: LLMAdapter, options: EngineOptions, tools: ToolExecutor | ToolServer | None = None
    ) -> LLMAgentEngine:
        """Return an engine on these services, with other `tools` than theirs if there are any."""
        own = options.config is not self.config
        options = replace(
            options, conditions=self.conditions, rule_set=self.rule_set, rules_in_force=self.rules, own_config=own
        )
        return LLMAgentEngine(adapter, tools or self.tools, self.constitution, ports=self.ports, options=options)

    def calling_engine(self, tools: ToolServer | None = None) -> LLMAgentEngine:
        """Return an engine for decisions without a model: see `LLMAgentEngine.call`."""
        return self.engine(ScriptedAdapter([]), EngineOptions(self.config, allow_missing_tools=tools is not None), tools)


@asynccontextmanager
async def open_services(
    settings: Settings,
    *,
    clock: Clock | None = None,
    user_headers: UserHeaders | None = None,
    group: Callable[..., McpServerGroup] = McpServerGroup,
) -> AsyncGenerator[tuple[AgentServices, Stores, RecordTree]]:
    """Open the database, the signing key and the tools, of which `group` is the client. Raises `ConfigurationError`."""
    # What is wrong with the files of this process is said before a database is created.
    engine_rules(settings)
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        stores = await stack.enter_async_context(open_stores(settings))
        settings = await settings_in_force(settings, stores.database)
        constitution = constitution_of(settings)
        opened = open_tools(stores.database, settings, constitution, user_headers=user_headers, clock=clock, group=group)
        tools = await stack.enter_async_context(opened)
        tree, keys = record_tree(settings, stores.database, clock), record_keys(settings)
        approvals = open_approvals(settings, stores.database, tree.keys.origin)
        unknown = UnknownOutcomes(DueTable(stores.database), tools.server_of)
        audit = DatabaseAuditWriter(
            stores.database, clock=clock, record_key=keys, turn=OpensRequests(approvals), unknown=unknown
        )
        rules = InstalledRules(settings, stores.database, tools, approvals)
        services = AgentServices(
            constitution=rules.current.constitution.text,
            conditions=rules.current.conditions,
            rule_set=rules.current.rule_set,
            config=rules.current.config,
            max_iterations=settings.max_iterations,
            rules=rules,
            tools=tools,
            ports=EnginePorts(
                audit,
                clock,
                signer=Signer(*signing_keys(settings)),
                confirmations=ConfirmationStore(stores.database, record_key=keys),
                approvals=approvals,
                permitted=plan_solver(),
            ),
        )
        try:
            yield services, stores, tree
        finally:
            await seal_if_possible(tree)


@asynccontextmanager
async def open_agent_services(settings: Settings) -> AsyncGenerator[AgentServices]:
    """Open the services of `run_agent`. Raises `ConfigurationError`."""
    async with open_services(settings) as (services, *_):
        yield services


@asynccontextmanager
async def shared_services() -> AsyncGenerator[AgentServices]:
    """Yield the services that the environment configures.

    The first caller opens them, later callers share them, and the last one to leave closes them. A program that calls
    `run_agent` now and then can stay in this context, so that not every call opens them again. Raises `ConfigurationError`.
    """
    key = asyncio.get_running_loop(), read_settings()
    shared = _open.get(key)
    if shared is None:
        shared = _open[key] = OpenedByTask(open_agent_services(key[1]))
    shared.users += 1
    try:
        yield await shared.value()
    finally:
        shared.users -= 1
        if shared.users == 0:
            _open.pop(key, None)
            await shared.aclose()


_open: dict[tuple[asyncio.AbstractEventLoop, Settings], OpenedByTask[AgentServices]] = {}


# Calls with the same configuration share one adapter, so that they share its connections and its limit on them.
@lru_cache(maxsize=16)
def agent_adapter(base_url: str, api_key: str, model: str, timeout_seconds: float, *, allow_storage: bool) -> LLMAdapter:
    """Return the adapter for an endpoint that speaks the OpenAI protocol. It keeps a client for each event loop."""
    limits = LLMConfig(api_key=api_key, timeout_seconds=timeout_seconds)
    return OpenAICompatibleAdapter(api_key, model, base_url=base_url, config=limits, allow_storage=allow_storage)
