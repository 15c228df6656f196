"""Helpers for tests of whole turns: a tool server over a dictionary, and short functions for scripted responses of a model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, fields
from typing import Any

from graph_agent.clock import ManualClock, SequentialIds
from graph_agent.errors import ToolErrorCode
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.decision import DecisionContext
from graph_agent.models.llm import FunctionCall, LLMResponse, ToolDeclaration
from graph_agent.models.rules_digests import RulesDigests
from graph_agent.models.tools import ToolResult, ToolTraits
from graph_agent.policy.authorized_call import AuthorizedCall
from graph_agent.policy.compiled import compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.signature import Signer
from graph_agent.ports import SentCall
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.turn.engine import LLMAgentEngine
from graph_agent.turn.setup import EngineOptions, EnginePorts

READS = {"list_tasks"}
SECRET = b"a key for tests only"


@dataclass
class TableServer:
    """A `ToolServer` over a dictionary of answers: by tool name a result, or a function of the parameters."""

    answers: dict[str, ToolResult | Callable[[dict[str, Any]], ToolResult | Awaitable[ToolResult]]] = field(
        default_factory=dict
    )
    previews: dict[str, ToolResult] = field(default_factory=dict)
    settlements: list[ToolResult] = field(default_factory=list)
    ledger: bool = True
    served: tuple[ToolDeclaration, ...] = TASK_TOOLS
    reads: Collection[str] = frozenset(READS)
    """The tools that the server declares to only read."""
    sent: list[tuple[str, dict[str, Any], str, str | None]] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)

    async def start(self) -> bool:
        return True

    def get_available_tools(self) -> list[str]:
        return [tool.name for tool in self.served]

    def declarations(self) -> list[ToolDeclaration]:
        return list(self.served)

    def traits(self, tool_name: str) -> ToolTraits:
        read_only = tool_name in self.reads
        title = tool_name.replace("_", " ").capitalize()
        return ToolTraits(
            title=title, read_only=read_only, ledger=self.ledger and not read_only, preview=tool_name in self.previews
        )

    async def execute(self, call: AuthorizedCall, *, deadline: float | None = None) -> ToolResult:
        assert deadline is not None
        self.sent.append((call.tool_name, call.arguments, call.user_id, call.operation_key if call.mutating else None))
        answer = self.answers.get(call.tool_name, done())
        if isinstance(answer, ToolResult):
            return answer
        given = answer(call.arguments)
        return given if isinstance(given, ToolResult) else await given

    async def settle(self, call: SentCall, *, deadline: float | None = None) -> ToolResult:
        assert (call.tool_name, call.arguments, call.user_id) == self.sent[-1][:3]
        assert deadline is not None
        self.settled.append(call.operation_key)
        return self.settlements.pop(0)

    async def preview(
        self, tool_name: str, parameters: dict[str, Any], user_id: str, *, deadline: float | None = None
    ) -> ToolResult:
        assert user_id
        assert parameters
        assert deadline is not None
        return self.previews[tool_name]


def done(data: dict[str, Any] | None = None) -> ToolResult:
    return ToolResult(success=True, data=data or {})


def failed(code: ToolErrorCode, text: str = "it failed") -> ToolResult:
    return ToolResult(success=False, error=text, error_code=code)


def ends(finish_reason: Any = "stop", text: str | None = None) -> LLMResponse:
    """Return a response that ends in this way, by default an empty one."""
    return LLMResponse(content=text, finish_reason=finish_reason)


def calls(*requested: tuple[str, dict[str, Any]], content: str | None = None) -> LLMResponse:
    function_calls = [FunctionCall(name=name, arguments=arguments) for name, arguments in requested]
    return LLMResponse(content=content, function_calls=function_calls, finish_reason="tool_calls")


def asks(message: str = "add a task to call mom", **more: Any) -> DecisionContext:
    return DecisionContext(**{"user_id": "ann", "message": message, "conversation_id": "c1", **more})


def engine_of(*script: Any, server: Any = None, **settings: Any) -> LLMAgentEngine:
    """Return an engine with a scripted model, a manual clock and sequential ids."""
    settings.setdefault("clock", ManualClock())
    settings.setdefault("ids", SequentialIds())
    settings.setdefault("signer", Signer(SECRET))
    adapter, constitution = ScriptedAdapter(list(script)), Constitution.load().text
    return LLMAgentEngine(adapter, server or TableServer(), constitution, **grouped(**settings))


def asked_under(tool_name: str, server: TableServer | None = None) -> RulesDigests:
    """Return the rules under which an engine with this server and the shipped constitution asks about a call."""
    server = server or TableServer()
    traits = {name: server.traits(name) for name in server.get_available_tools()}
    return compile_policy(Constitution.load(), server.declarations(), traits, partial=True).digests([tool_name])


def grouped(**settings: Any) -> dict[str, Any]:
    """Return the optional parameters of an engine in their two groups."""
    ports = {field.name: settings.pop(field.name, None) for field in fields(EnginePorts)}
    given = {name: port for name, port in ports.items() if port is not None}
    return {"ports": EnginePorts(**given), "options": EngineOptions(**settings)}
