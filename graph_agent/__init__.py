"""A governed runtime between a language model and real data.

`_NAMES` is the only list of the public names, by the module that defines them. A name's module is imported when the name is
first used, so `import graph_agent` loads nothing else. Type checkers and editors read `__init__.pyi`, which `make stub` writes
from this list; a test compares the two.
"""

from importlib import import_module

_NAMES = {
    "agent_service": (
        "AgentConfiguration", "AgentLoopConfig", "AgentResponse", "SystemPrompt", "ToolBinding", "bind_mcp_tools",
        "get_default_config", "run_agent",
    ),
    "bootstrap.library_record": ("LibraryRecord", "open_record"),
    "clock": ("ManualClock", "SequentialIds"),
    "errors": (
        "ConfigurationError", "ConstitutionError", "GraphAgentError", "InvalidResponseError", "LLMError", "LLMTimeoutError",
        "RateLimitError", "ServiceError", "TimeoutError", "ToolNotFoundError", "ToolRefusal", "UndeclaredOutcomeError",
    ),
    "graph.authorized": ("run_authorized",),
    "graph.build": ("build_graph",),
    "graph.state": ("Turn",),
    "graph.step": ("Step",),
    "graph.topology": ("TOPOLOGY",),
    "llm.config": ("LLMConfig",),
    "llm.embedded": ("EmbeddedAdapter",),
    "llm.gemini": ("GeminiAdapter",),
    "llm.openai_compatible": ("OpenAICompatibleAdapter",),
    "llm.scripted": ("ScriptedAdapter",),
    "models.authors": ("TextAuthor", "TextAuthors", "TextPart"),
    "models.config": ("MAX_TOOL_ITERATIONS", "AgentEngineConfig"),
    "models.decision": (
        "MAX_HISTORY_MESSAGES", "MAX_MESSAGE_LENGTH", "AfterYes", "AgentDecision", "DecisionContext", "DecisionType",
        "IntentType", "Message", "OutcomeCategory", "PendingAction", "PendingCall", "UserIntent",
    ),
    "models.llm": (
        "DEFAULT_TEMPERATURE", "MAX_RESPONSE_TOKENS", "FunctionCall", "FunctionResponse", "LLMErrorCode", "LLMMessage",
        "LLMRequest", "LLMResponse", "TokenUsage", "ToolDeclaration",
    ),
    "models.tools": ("ToolCall", "ToolResult"),
    "net.user_token": ("signed_in_with",),
    "policy.allowed_tools": ("ALLOWED_TOOLS",),
    "policy.authorized_call": ("AuthorizedCall",),
    "policy.call_in_hand": ("CallInHand", "Gate", "Question"),
    "policy.cedar.conditions": ("ConditionsFile",),
    "policy.constitution": ("Constitution",),
    "policy.guard": ("GATES", "with_gate"),
    "ports": ("LLMAdapter", "ToolExecutor"),
    "record.audit_writer": ("AuditWriter",),
    "record.tables": ("DecisionLog", "ToolInvocationLog"),
    "record.writer": ("DatabaseAuditWriter",),
    "replays.replayer": ("replay",),
    "task_server.declarations": ("TOOL_DECLARATIONS",),
    "task_server.models": ("Task",),
    "tools.executor": ("McpToolExecutor",),
    "tools.functions": ("FunctionTools",),
    "turn.engine": ("LLMAgentEngine", "step"),
    "turn.finished": ("FinishedTurn",),
    "turn.setup": ("EngineOptions", "EnginePorts"),
}  # fmt: skip
_MODULES = {name: f"{__name__}.{module}" for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name):
    """Import a public name on its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__():
    return sorted({*globals(), *__all__})
