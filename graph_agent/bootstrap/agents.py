"""What the agent service stands in; it asks for this by name when it is first called."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from graph_agent.agent_service.surroundings import Surroundings
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.bootstrap.secret import chain_key, signing_key
from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.toolbox import open_tools
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.chat.conversations import ConfirmationStore
from graph_agent.policy.confirmation import Signer
from graph_agent.policy.constitution import Constitution
from graph_agent.settings import Settings


@asynccontextmanager
async def open_surroundings(settings: Settings) -> AsyncGenerator[Surroundings]:
    """The databases, the key and the shipped tools of `settings`, as a runtime has them. Raises `ConfigurationError`."""
    constitution = Constitution.load(settings.constitution)
    clock, ids = SystemClock(), RandomIds()
    async with open_stores(settings) as stores, open_tools(stores.tasks, clock=clock, ids=ids) as tools:
        yield Surroundings(
            constitution=constitution.text,
            tools=tools,
            audit=DatabaseAuditWriter(stores.log, clock=clock, chain_key=chain_key(settings)),
            signer=Signer(signing_key(settings)),
            confirmations=ConfirmationStore(stores.tasks, clock=clock),
            clock=clock,
            ids=ids,
        )
