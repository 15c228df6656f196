"""A governed runtime between a language model and real data.

The names below are the public ones. They are imported when they are first used, so that `import graph_agent` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graph_agent.agent_service import (
        AgentConfiguration,
        AgentLoopConfig,
        AgentResponse,
        SystemPrompt,
        ToolBinding,
        bind_mcp_tools,
        get_default_config,
        run_agent,
    )
    from graph_agent.audit.drift.baselines import BaselineService, DriftReport
    from graph_agent.audit.queries import LogQueryService
    from graph_agent.turn.recorder import Recorder
    from graph_agent.record.tables import DecisionLog, LLMCallLog, ToolInvocationLog
    from graph_agent.record.writer import DatabaseAuditWriter
    from graph_agent.chat.service import ChatService
    from graph_agent.clock import ManualClock, SequentialIds, SystemClock
    from graph_agent.turn.engine import FinishedTurn, LLMAgentEngine, step
    from graph_agent.errors import (
        ConfigurationError,
        ConstitutionError,
        GraphAgentError,
        InvalidResponseError,
        LLMError,
        LLMTimeoutError,
        RateLimitError,
        ServiceError,
        ToolNotFoundError,
        UndeclaredOutcomeError,
    )
    from graph_agent.graph.authorized import run_authorized
    from graph_agent.graph.build import build_graph
    from graph_agent.graph.state import Turn, TurnRuntime
    from graph_agent.graph.stepping import Step
    from graph_agent.graph.topology import TOPOLOGY
    from graph_agent.llm.config import LLMConfig
    from graph_agent.llm.gemini import GeminiAdapter
    from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
    from graph_agent.rules_model import RuleBasedAdapter
    from graph_agent.llm.scripted import ScriptedAdapter
    from graph_agent.models.config import MAX_TOOL_ITERATIONS, AgentEngineConfig
    from graph_agent.models.decision import (
        MAX_HISTORY_MESSAGES,
        MAX_MESSAGE_LENGTH,
        AgentDecision,
        DecisionContext,
        DecisionType,
        IntentType,
        Message,
        OutcomeCategory,
        PendingAction,
        UserIntent,
    )
    from graph_agent.models.llm import (
        DEFAULT_TEMPERATURE,
        MAX_RESPONSE_TOKENS,
        FunctionCall,
        FunctionResponse,
        LLMErrorCode,
        LLMMessage,
        LLMRequest,
        LLMResponse,
        TokenUsage,
        ToolDeclaration,
    )
    from graph_agent.models.tools import ToolCall, ToolResult
    from graph_agent.policy.constitution import Constitution
    from graph_agent.policy.guard import AuthorizedCall, judge_batch
    from graph_agent.ports import AuditWriter, Clock, LLMAdapter, ToolExecutor
    from graph_agent.replay import replay
    from graph_agent.task_server.models import Task
    from graph_agent.task_server.server import build_task_server
    from graph_agent.tools.executor import McpToolExecutor
    from graph_agent.validation.service import ValidationReport, ValidationService

    ALLOWED_TOOLS: frozenset[str]

_HOMES = {
    "agent_service": ("AgentConfiguration", "AgentLoopConfig", "AgentResponse", "SystemPrompt", "ToolBinding",
                      "bind_mcp_tools", "get_default_config", "run_agent"),
    "turn.recorder": ("Recorder",),
    "record.tables": ("DecisionLog", "LLMCallLog", "ToolInvocationLog"),
    "record.writer": ("DatabaseAuditWriter",),
    "audit.drift.baselines": ("BaselineService", "DriftReport"),
    "audit.queries": ("LogQueryService",),
    "validation.service": ("ValidationReport", "ValidationService"),
    "graph.authorized": ("run_authorized",),
    "chat.service": ("ChatService",),
    "replay": ("replay",),
    "clock": ("ManualClock", "SequentialIds", "SystemClock"),
    "turn.engine": ("FinishedTurn", "LLMAgentEngine", "step"),
    "errors": ("ConfigurationError", "ConstitutionError", "GraphAgentError", "InvalidResponseError", "LLMError",
               "LLMTimeoutError", "RateLimitError", "ServiceError", "ToolNotFoundError", "UndeclaredOutcomeError"),
    "graph.build": ("build_graph",),
    "graph.state": ("Turn", "TurnRuntime"),
    "graph.stepping": ("Step",),
    "graph.topology": ("TOPOLOGY",),
    "llm.config": ("LLMConfig",),
    "llm.gemini": ("GeminiAdapter",),
    "llm.openai_compatible": ("OpenAICompatibleAdapter",),
    "rules_model": ("RuleBasedAdapter",),
    "llm.scripted": ("ScriptedAdapter",),
    "models.config": ("MAX_TOOL_ITERATIONS", "AgentEngineConfig"),
    "models.decision": ("MAX_HISTORY_MESSAGES", "MAX_MESSAGE_LENGTH", "AgentDecision", "DecisionContext", "DecisionType",
                        "IntentType", "Message", "OutcomeCategory", "PendingAction", "UserIntent"),
    "models.llm": ("DEFAULT_TEMPERATURE", "MAX_RESPONSE_TOKENS", "FunctionCall", "FunctionResponse", "LLMErrorCode",
                   "LLMMessage", "LLMRequest", "LLMResponse", "TokenUsage", "ToolDeclaration"),
    "models.tools": ("ToolCall", "ToolResult"),
    "policy.constitution": ("Constitution",),
    "policy.guard": ("AuthorizedCall", "judge_batch"),
    "ports": ("AuditWriter", "Clock", "LLMAdapter", "ToolExecutor"),
    "task_server.models": ("Task",),
    "task_server.server": ("build_task_server",),
    "tools.executor": ("McpToolExecutor",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ALLOWED_TOOLS",
    "DEFAULT_TEMPERATURE",
    "MAX_HISTORY_MESSAGES",
    "MAX_MESSAGE_LENGTH",
    "MAX_RESPONSE_TOKENS",
    "MAX_TOOL_ITERATIONS",
    "TOPOLOGY",
    "AgentConfiguration",
    "AgentDecision",
    "AgentEngineConfig",
    "AgentLoopConfig",
    "AgentResponse",
    "AuditWriter",
    "AuthorizedCall",
    "BaselineService",
    "ChatService",
    "Clock",
    "ConfigurationError",
    "Constitution",
    "ConstitutionError",
    "DatabaseAuditWriter",
    "DecisionContext",
    "DecisionLog",
    "DecisionType",
    "DriftReport",
    "FinishedTurn",
    "FunctionCall",
    "FunctionResponse",
    "GeminiAdapter",
    "GraphAgentError",
    "IntentType",
    "InvalidResponseError",
    "LLMAdapter",
    "LLMAgentEngine",
    "LLMCallLog",
    "LLMConfig",
    "LLMError",
    "LLMErrorCode",
    "LLMMessage",
    "LLMRequest",
    "LLMResponse",
    "LLMTimeoutError",
    "LogQueryService",
    "ManualClock",
    "McpToolExecutor",
    "Message",
    "OpenAICompatibleAdapter",
    "OutcomeCategory",
    "PendingAction",
    "RateLimitError",
    "Recorder",
    "RuleBasedAdapter",
    "ScriptedAdapter",
    "SequentialIds",
    "ServiceError",
    "Step",
    "SystemClock",
    "SystemPrompt",
    "Task",
    "TokenUsage",
    "ToolBinding",
    "ToolCall",
    "ToolDeclaration",
    "ToolExecutor",
    "ToolInvocationLog",
    "ToolNotFoundError",
    "ToolResult",
    "Turn",
    "TurnRuntime",
    "UndeclaredOutcomeError",
    "UserIntent",
    "ValidationReport",
    "ValidationService",
    "bind_mcp_tools",
    "build_graph",
    "build_task_server",
    "get_default_config",
    "judge_batch",
    "replay",
    "run_agent",
    "run_authorized",
    "step",
]


def __getattr__(name: str) -> Any:
    if name == "ALLOWED_TOOLS":
        from graph_agent.policy.constitution import Constitution

        return frozenset(Constitution.load().whitelist)
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'graph_agent' has no attribute '{name}'")
    return getattr(import_module(f"graph_agent.{home}"), name)
