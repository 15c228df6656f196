"""The validation service with the chosen model; reports go to the log.

The cases run on the shipped task server on an empty database, or play their own tools. Only with `real_tools` they run on the
configured MCP servers, and are recorded like any turn.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from graph_agent.bootstrap.adapters import open_adapter
from graph_agent.bootstrap.agent_services import AgentServices, open_services
from graph_agent.bootstrap.database_rules import conditions_of
from graph_agent.bootstrap.rule_settings import DatabaseRules, constitution_of
from graph_agent.bootstrap.secret import record_keys
from graph_agent.bootstrap.stores import open_stores, temporary_settings
from graph_agent.bootstrap.toolbox import connect
from graph_agent.errors import ConfigurationError
from graph_agent.models.canonical import digest
from graph_agent.ports import LLMAdapter
from graph_agent.settings import Settings
from graph_agent.task_server.declarations import TOOL_HINTS
from graph_agent.task_server.tools import CaseTasks
from graph_agent.tools.real_servers import RealServers
from graph_agent.validation.fixtures import Fixture
from graph_agent.validation.runner import EngineRunner
from graph_agent.validation.service import ValidationService

CASES = 20
"""The number of cases in a part. Opening a model and tools for a part takes as long as a few cases."""


class CasePart(NamedTuple):
    """Cases that one process plays, each in its own environment."""

    fixtures: tuple[Fixture, ...]

    @property
    def name(self) -> str:
        """The digest of the cases."""
        return digest([one.model_dump(mode="json", exclude_unset=True) for one in self.fixtures])


@dataclass(frozen=True, slots=True)
class ValidationJob:
    """A validation whose cases are distributed over processes. Each of them reads the constitution."""

    settings: Settings
    model: str | None
    parallel: int

    def to_json(self) -> list[Any]:
        """Return what the results depend on, besides the cases."""
        constitution = constitution_of(self.settings).text
        conditions = conditions_of(self.settings)
        of_file = [] if conditions is None else [conditions.text, list(conditions.roles), conditions.time_zone]
        given = self.settings
        turns = [given.timeout_seconds, given.max_iterations, given.after_yes]
        return [self.model or given.model, constitution, *turns, *of_file]


def grants_shipped_tools(settings: Settings) -> bool:
    """True if the constitution grants a tool of the shipped suite. Raises `ConfigurationError`."""
    return not TOOL_HINTS.keys().isdisjoint(constitution_of(settings).whitelist)


def split_cases(fixtures: Sequence[Fixture]) -> list[CasePart]:
    """Divide the cases into parts of `CASES` cases, in order."""
    return [CasePart(tuple(fixtures[first : first + CASES])) for first in range(0, len(fixtures), CASES)]


async def play_part(job: ValidationJob, part: CasePart) -> list[dict[str, Any]]:
    """Play the cases of one part; return the JSON of each `PlayedCase`."""
    async with _open_isolated(job.settings, job.model) as (runner, _):
        return [case.to_json() for case in await ValidationService(runner).play(part.fixtures, parallel=job.parallel)]


@asynccontextmanager
async def open_validation(
    settings: Settings, *, model: str | None = None, real_tools: bool = False
) -> AsyncGenerator[tuple[ValidationService, str]]:
    """Open a validation service; say in one line which model it validates. Raises `ConfigurationError`."""
    opened = _open_real(settings, model) if real_tools else _open_isolated(settings, model)
    async with opened as (runner, reason), open_stores(settings) as stores:
        yield ValidationService(runner, stores.database, record_key=record_keys(settings)), reason


@asynccontextmanager
async def _open_isolated(settings: Settings, model: str | None) -> AsyncGenerator[tuple[EngineRunner, str]]:
    """Open a runner whose database is not the log: the calls of a case are counted apart from those of users."""
    opened = open_services(temporary_settings(settings))
    async with open_adapter(settings, model) as (adapter, reason), opened as (services, stores, _):
        yield _runner(adapter, services, CaseTasks(stores.database)), reason


@asynccontextmanager
async def _open_real(settings: Settings, model: str | None) -> AsyncGenerator[tuple[EngineRunner, str]]:
    """Open a runner on the configured servers and the real record."""
    if settings.mcp is None:
        raise ConfigurationError("there are no real tools: name the file of their servers with --mcp or GRAPH_AGENT_MCP")
    opened = open_services(settings, group=RealServers)
    async with open_adapter(settings, model) as (adapter, reason), opened as (services, *_):
        if services.rules is not None and isinstance(services.rules.settings, DatabaseRules):
            raise ConfigurationError("rules are activated in this database: validate others in a database of their own")
        await connect(services.tools)
        yield _runner(adapter, services), reason


def _runner(adapter: LLMAdapter, services: AgentServices, tasks: CaseTasks | None = None) -> EngineRunner:
    return EngineRunner(
        adapter,
        services.tools,
        services.constitution,
        tasks,
        # A case is no turn of a user: its tokens are not limited.
        config=services.config.replace(tokens=None),
        conditions=services.conditions,
        audit=services.ports.audit,
    )
