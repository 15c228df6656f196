"""The services behind `run_agent`, opened from the settings, and the adapter for its configuration."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

from graph_agent.bootstrap.secret import signing_keys
from graph_agent.bootstrap.stores import open_audit, open_stores
from graph_agent.bootstrap.toolbox import open_tools, pins_of
from graph_agent.chat.conversations.confirmations import ConfirmationStore
from graph_agent.clock import RandomIds, SystemClock
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.ports import AuditWriter, Clock, Confirmations, IdSource, LLMAdapter, ToolServer
from graph_agent.settings import Settings


@dataclass(frozen=True)
class AgentServices:
    """The services of a turn that its caller does not choose."""

    constitution: str
    tools: ToolServer
    audit: AuditWriter
    signer: Signer
    confirmations: Confirmations
    clock: Clock
    ids: IdSource


@asynccontextmanager
async def open_agent_services(settings: Settings) -> AsyncGenerator[AgentServices]:
    """Open the databases, the signing key and the shipped tools. Raises `ConfigurationError`."""
    constitution = Constitution.load(settings.constitution)
    clock, ids = SystemClock(), RandomIds()
    async with (
        open_stores(settings) as stores,
        open_tools(
            stores.tasks, file=settings.mcp, constitution=constitution, pins=pins_of(settings), clock=clock, ids=ids
        ) as tools,
    ):
        yield AgentServices(
            constitution=constitution.text,
            tools=tools,
            audit=await open_audit(settings, stores.log, clock),
            signer=Signer(*signing_keys(settings)),
            confirmations=ConfirmationStore(stores.tasks, clock=clock),
            clock=clock,
            ids=ids,
        )


# Calls with the same configuration share one adapter, so that they share its connections and its limit on them.
@lru_cache(maxsize=16)
def agent_adapter(base_url: str, api_key: str, model: str, timeout_seconds: float) -> LLMAdapter:
    """Return the adapter for an endpoint that speaks the OpenAI protocol. It keeps a client for each event loop."""
    limits = LLMConfig(api_key=api_key, timeout_seconds=timeout_seconds)
    return OpenAICompatibleAdapter(api_key, model, base_url=base_url, config=limits)
