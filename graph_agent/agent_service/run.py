"""One turn of a conversation that the caller stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graph_agent.agent_service import messages
from graph_agent.agent_service.config import AgentConfiguration, AgentLoopConfig
from graph_agent.agent_service.messages import AgentResponse, History
from graph_agent.agent_service.prompt import SystemPrompt
from graph_agent.agent_service.tool_binding import BoundTools, ToolBinding
from graph_agent.bootstrap.agent_services import AgentServices, agent_adapter, shared_services
from graph_agent.errors import ConfigurationError, RecordError, ServiceError, ServiceErrorCode, TurnTakenOverError
from graph_agent.models.config import AgentEngineConfig
from graph_agent.models.decision import DecisionContext, OutcomeCategory, ShownQuestion, content_problem
from graph_agent.models.time_zone import time_zone
from graph_agent.policy.signature import Signer
from graph_agent.ports import LLMAdapter, ToolExecutor, ToolServer
from graph_agent.settings import read_settings
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EngineOptions

_UNRECORDED = "The request cannot be recorded right now. Please try again later."
_OUTCOME_UNKNOWN = "The request was started, and its outcome is not known. Check what was done before you repeat it."


@dataclass(frozen=True)
class AgentRequest:
    """The arguments of `run_agent`."""

    message_history: Sequence[Mapping[str, Any]]
    user_id: str
    config: AgentConfiguration
    system_prompt: SystemPrompt | None = None
    loop_config: AgentLoopConfig | None = None
    tools: Sequence[ToolBinding] | ToolExecutor | ToolServer | None = None
    conversation_id: str | None = None
    time_zone: str = ""


async def run_agent(
    message_history: Sequence[Mapping[str, Any]],
    user_id: str,
    config: AgentConfiguration,
    *,
    system_prompt: SystemPrompt | None = None,
    loop_config: AgentLoopConfig | None = None,
    tools: Sequence[ToolBinding] | ToolExecutor | ToolServer | None = None,
    conversation_id: str | None = None,
    time_zone: str = "",
) -> AgentResponse:
    """Answer the last message of `message_history`.

    The history is a list of OpenAI-format dictionaries, or the `messages` of an earlier response with the user's next message
    appended. A failure, an unusable message included, is reported in the response; `ConfigurationError` is raised only if no
    turn can run at all.

    `tools` defaults to the shipped tools. The constitution decides which of them may be called and which need a confirmation.
    Texts by code say times in the `time_zone` with this IANA name, or else in that of each value.
    The messages carry the conversation's id; `conversation_id` overrides it. System messages in the history are kept but not
    sent to the model: use `system_prompt`.
    """
    request = AgentRequest(message_history, user_id, config, system_prompt, loop_config, tools, conversation_id, time_zone)
    async with shared_services() as shared:
        services = await shared.renewed()
        endpoint = (config.api_base_url, config.api_key, config.model_name, config.timeout)
        adapter = agent_adapter(*endpoint, allow_storage=read_settings().allow_model_storage)
        return await converse(services, adapter, request)


async def converse(services: AgentServices, adapter: LLMAdapter, request: AgentRequest) -> AgentResponse:
    """Do the same as `run_agent`, with services and an adapter that the caller has opened."""
    message_history, user_id = request.message_history, request.user_id
    try:
        messages.check_id("user_id", user_id)
        if request.conversation_id is not None:
            messages.check_id("conversation_id", request.conversation_id)
        if request.time_zone and time_zone(request.time_zone) is None:
            return messages.refused_response(message_history, "The time zone is none that is known here.")
        history = messages.read_history(message_history, services.ports.clock.now())
        engine = _engine(services, adapter, request)
        named = request.conversation_id or history.conversation_id or services.ports.ids.new()
        if problem := content_problem(history.message):
            await engine.refuse(user_id, named, history.message, OutcomeCategory.USER_INPUT, problem)
            return messages.refused_response(message_history, problem)
        finished = await engine.run(_context(services.ports.signer, history, user_id, named, request.time_zone))
    except ServiceError as exc:
        # A caller of this service has no key with which to ask again.
        unknown = exc.code is ServiceErrorCode.OUTCOME_UNKNOWN
        return messages.refused_response(message_history, _OUTCOME_UNKNOWN if unknown else exc.message)
    except TurnTakenOverError:
        return messages.refused_response(message_history, _OUTCOME_UNKNOWN)
    except RecordError:
        return messages.refused_response(message_history, _UNRECORDED)
    return messages.finished_response(message_history, finished, engine.config)


def _engine(services: AgentServices, adapter: LLMAdapter, request: AgentRequest) -> LLMAgentEngine:
    config, tools = request.config, request.tools
    prompt, loop = request.system_prompt or SystemPrompt(), request.loop_config or _loop(services)
    executor = BoundTools(tools, services.tools) if isinstance(tools, Sequence) else tools or services.tools
    engine = services.engine(
        adapter,
        EngineOptions(
            AgentEngineConfig(
                max_iterations=loop.max_iterations,
                temperature=config.temperature,
                max_tokens=config.max_tokens,
                timeout_seconds=loop.turn_seconds,
                iteration_timeout=loop.iteration_timeout,
                read_retries=loop.read_retries,
                tell_time=True,
                after_yes=services.config.after_yes,
                tokens=services.config.tokens,
            ),
            system_prompt=prompt.to_prompt_string(request.user_id),
            # A list of bindings is the caller's choice of some of the granted tools.
            allow_missing_tools=isinstance(tools, Sequence),
        ),
        executor,
    )
    bound = executor.get_available_tools() if isinstance(executor, BoundTools) else []
    if unlisted := [name for name in bound if name not in engine.constitution.whitelist]:
        raise ConfigurationError(f"the constitution does not list the bound tools: {', '.join(unlisted)}")
    return engine


def _loop(services: AgentServices) -> AgentLoopConfig:
    """Return the limits of a turn whose caller gives none."""
    if services.max_iterations is None:
        return AgentLoopConfig()
    return AgentLoopConfig(max_iterations=services.max_iterations)


def _context(signer: Signer, history: History, user_id: str, conversation_id: str, time_zone: str) -> DecisionContext:
    pending = history.pending
    try:
        # Only an action with our signature for this user and conversation enters the record.
        if pending is not None and not signer.verify(pending, user_id=user_id, conversation_id=conversation_id):
            pending = None
    except ValueError:  # text that is not Unicode, numbers that are not JSON
        pending = None
    return DecisionContext(
        user_id=user_id,
        message=history.message,
        conversation_id=conversation_id,
        message_history=list(history.earlier),
        time_zone=time_zone,
        pending_confirmation=pending,
        # Its question is the last message before the user's, so that a late yes or no to it is none to anything else.
        shown=None if pending is None else ShownQuestion(pending_action=pending.id),
    )
