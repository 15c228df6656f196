"""A whole installation in memory, its client, and short functions for the script of its model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from graph_agent.bootstrap.stores import open_stores, temporary_settings
from graph_agent.chat.answer import ChatAnswer
from graph_agent.chat.service import ChatService
from graph_agent.llm.scripted import ScriptedAdapter, Step
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.llm import FunctionCall, LLMResponse
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.ports import Clock, LLMAdapter, ToolExecutor, ToolServer
from graph_agent.question.approvals import ApprovalStore, OpensRequests
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.settings import Settings
from graph_agent.tools.functions import FunctionTools
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EngineOptions, EnginePorts

_TURN_SECONDS = 600.0


def says(text: str) -> LLMResponse:
    """Return the response of a model that only answers."""
    return LLMResponse(content=text, finish_reason="stop")


def calls(tool_name: str, **arguments: Any) -> LLMResponse:
    """Return the response of a model that calls one tool."""
    return LLMResponse(function_calls=[FunctionCall(tool_name, arguments)], finish_reason="tool_calls")


@dataclass(frozen=True, slots=True)
class TestClient:
    """Sends messages as users of an installation. Each user has one conversation, so a `yes` answers the question before it."""

    __test__ = False  # pytest would collect a class with this name

    chat: ChatService
    engine: LLMAgentEngine
    _conversations: dict[str, str] = field(default_factory=dict)

    async def send(self, message: str, *, user_id: str = "ann", **fields: Any) -> ChatAnswer:
        """Send a message and return its answer. `fields` are those of `ChatService.send`, such as `roles`.

        Raises `ServiceError` for a message that begins no turn.
        """
        answer = await self.chat.send(user_id, message, conversation_id=self._conversations.get(user_id), **fields)
        self._conversations[user_id] = answer.conversation_id
        return answer


@asynccontextmanager
async def open_installation(
    tools: ToolExecutor | ToolServer | FunctionTools,
    constitution: str,
    model: LLMAdapter | Iterable[Step],
    *,
    conditions: ConditionsFile | str | None = None,
    config: AgentEngineConfig | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[TestClient]:
    """Open an installation on an empty database in memory and yield its client.

    `tools` are yours, or `PlayedTools` with given results. `model` is a script of responses, or an adapter. `conditions` are
    the text of a `policy.cedar`, or a file with roles and a time zone. Without a `config` a turn has ten minutes, so that no
    test depends on the speed of its machine. Raises `ConfigurationError` if constitution, conditions and tools do not fit
    together, and on leaving `ScriptExhaustedError` if the model was not asked as often as the script says.
    """
    adapter = ScriptedAdapter(model) if isinstance(model, Iterable) else model
    config = config or AgentEngineConfig(timeout_seconds=_TURN_SECONDS)
    file = ConditionsFile(conditions) if isinstance(conditions, str) else conditions
    async with open_stores(temporary_settings(Settings())) as stores:
        # Turns have the time of the database.
        stores.database.clock = clock
        ports: dict[str, Any] = {} if clock is None else {"clock": clock}
        approvals = ApprovalStore(stores.database)
        audit = DatabaseAuditWriter(stores.database, turn=OpensRequests(approvals), **ports)
        given: Any = tools  # the engine passes only the parameters that an executor accepts
        engine = LLMAgentEngine(
            adapter,
            given,
            constitution,
            options=EngineOptions(config, conditions=file),
            ports=EnginePorts(audit, confirmations=ConfirmationStore(stores.database), approvals=approvals, **ports),
        )
        chat = ChatService(engine, turns_per_minute=1000, **ports)
        await engine.prepare()
        try:
            yield TestClient(chat, engine)
        finally:
            await chat.aclose()
    if isinstance(adapter, ScriptedAdapter):
        adapter.assert_finished()
