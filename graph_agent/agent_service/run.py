"""One turn of a conversation that the caller keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

from graph_agent.agent_service.bound_tools import BoundTools
from graph_agent.agent_service.config import AgentConfiguration
from graph_agent.agent_service.history import MAX_ID_LENGTH, History, read_history
from graph_agent.agent_service.loop_config import AgentLoopConfig
from graph_agent.agent_service.prompt import SystemPrompt
from graph_agent.agent_service.response import AgentResponse, refused, responded
from graph_agent.agent_service.surroundings import Surroundings, kept_open
from graph_agent.agent_service.tool_binding import ToolBinding
from graph_agent.turn.refused import write_refused
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.errors import RecordError, ServiceError, ServiceErrorCode
from graph_agent.graph.build import CompiledGraph, build_graph
from graph_agent.llm.config import LLMConfig
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import (
    MAX_MESSAGE_LENGTH,
    DecisionContext,
    OutcomeCategory,
    PendingAction,
    content_problem,
    unstorable,
)
from graph_agent.policy.confirmation import Signer
from graph_agent.ports import LLMAdapter, ToolExecutor

_UNRECORDED = "The request cannot be recorded right now. Please try again later."


async def run_agent(
    message_history: Sequence[Mapping[str, Any]],
    user_id: str,
    config: AgentConfiguration,
    *,
    system_prompt: SystemPrompt | None = None,
    loop_config: AgentLoopConfig | None = None,
    tools: Sequence[ToolBinding] | ToolExecutor | None = None,
    conversation_id: str | None = None,
) -> AgentResponse:
    """Answer the last message of `message_history`: OpenAI-format dictionaries, or the `messages` of an earlier response with
    the user's next message behind them.

    Whatever goes wrong in the turn, the user's message included, is told in the response. `tools` are the shipped ones unless
    given; what may be called, and what the user is asked about first, is the constitution's to say either way. The
    conversation's id travels in its messages; `conversation_id` names it from outside. System messages in the history are kept
    but not sent: `system_prompt` is for that. Raises `ConfigurationError` where no turn could be run at all.
    """
    async with kept_open() as surroundings:
        return await converse(
            surroundings,
            _adapter(config.api_base_url, config.api_key, config.model_name, config.timeout),
            message_history,
            user_id,
            config,
            system_prompt=system_prompt,
            loop_config=loop_config,
            tools=tools,
            conversation_id=conversation_id,
        )


async def converse(
    surroundings: Surroundings,
    adapter: LLMAdapter,
    message_history: Sequence[Mapping[str, Any]],
    user_id: str,
    config: AgentConfiguration,
    *,
    system_prompt: SystemPrompt | None = None,
    loop_config: AgentLoopConfig | None = None,
    tools: Sequence[ToolBinding] | ToolExecutor | None = None,
    conversation_id: str | None = None,
) -> AgentResponse:
    """`run_agent` in surroundings, and with a model, that the caller has opened."""
    try:
        _check_id("user_id", user_id)
        if conversation_id is not None:
            _check_id("conversation_id", conversation_id)
        history = read_history(message_history, surroundings.clock.now())
        engine = _engine(surroundings, adapter, user_id, config, system_prompt, loop_config, tools)
        named = conversation_id or history.conversation_id or surroundings.ids.new()
        if problem := content_problem(history.message):
            await _record_refused(engine, surroundings, user_id, named, history.message, problem)
            return refused(message_history, problem)
        finished = await engine.run(_context(surroundings.signer, history, user_id, named))
    except ServiceError as exc:
        return refused(message_history, exc.message)
    except RecordError:
        return refused(message_history, _UNRECORDED)
    return responded(message_history, finished, engine.config)


@lru_cache(maxsize=16)
def _adapter(base_url: str, api_key: str, model: str, seconds: float) -> OpenAICompatibleAdapter:
    """One for all calls that ask the same: they share connections and their bound. It keeps a client for each event loop."""
    limits = LLMConfig(api_key=api_key, timeout_seconds=seconds)
    return OpenAICompatibleAdapter(api_key, model, base_url=base_url, config=limits)


def _engine(
    surroundings: Surroundings,
    adapter: LLMAdapter,
    user_id: str,
    config: AgentConfiguration,
    system_prompt: SystemPrompt | None,
    loop_config: AgentLoopConfig | None,
    tools: Sequence[ToolBinding] | ToolExecutor | None,
) -> LLMAgentEngine:
    prompt, loop = system_prompt or SystemPrompt(), loop_config or AgentLoopConfig()
    executor = BoundTools(tools, surroundings.tools) if isinstance(tools, Sequence) else tools or surroundings.tools
    return LLMAgentEngine(
        adapter,
        executor,
        surroundings.constitution,
        config=AgentEngineConfig(
            max_iterations=loop.max_iterations,
            temperature=config.temperature,
            max_tokens=config.max_tokens,
            timeout_seconds=loop.turn_seconds,
            iteration_timeout=loop.iteration_timeout,
            read_retries=loop.read_retries,
            tell_time=True,
        ),
        audit=surroundings.audit,
        clock=surroundings.clock,
        ids=surroundings.ids,
        signer=surroundings.signer,
        confirmations=surroundings.confirmations,
        system_prompt=prompt.to_prompt_string(user_id),
        # A list of bindings is the caller's own choice among the granted tools.
        allow_missing_tools=isinstance(tools, Sequence),
        graph=_graph(),
    )


@cache
def _graph() -> CompiledGraph:
    return build_graph()


def _context(signer: Signer, history: History, user_id: str, conversation_id: str) -> DecisionContext:
    pending = history.pending
    if pending is not None and not _is_ours(signer, pending, user_id, conversation_id):
        pending = None
    return DecisionContext(
        user_id=user_id,
        message=history.message,
        conversation_id=conversation_id,
        message_history=list(history.earlier),
        pending_confirmation=pending,
    )


def _is_ours(signer: Signer, pending: PendingAction, user_id: str, conversation_id: str) -> bool:
    """Whether we made `pending` for this user here. What we did not make does not even enter the record."""
    try:
        return signer.verify(pending, user_id=user_id, conversation_id=conversation_id)
    except ValueError:  # text that is not Unicode, numbers that are not JSON
        return False


async def _record_refused(
    engine: LLMAgentEngine, surroundings: Surroundings, user_id: str, conversation_id: str, message: str, problem: str
) -> None:
    """Leave a decision for a message that gets no turn."""
    terms = await engine.prepare()
    told = message if message.strip() and unstorable(message) is None else json.dumps(message)
    context = DecisionContext(user_id=user_id, message=told[:MAX_MESSAGE_LENGTH], conversation_id=conversation_id)
    header = engine.header(context, terms)
    await write_refused(surroundings.audit, header, terms.texts, OutcomeCategory.USER_INPUT, problem)


def _check_id(name: str, value: str) -> None:
    """Raise `ServiceError` VALIDATION_ERROR for what cannot name a user or a conversation."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_ID_LENGTH or unstorable(value) is not None:
        raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"{name} must be a text of 1 to {MAX_ID_LENGTH} characters.")
