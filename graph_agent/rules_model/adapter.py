"""The embedded model behind the adapter interface."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolChoice, ToolDeclaration, select_declarations
from graph_agent.reply.forms import ANSWER, ASK_USER, DECLINE
from graph_agent.rules_model.conversation import read_conversation
from graph_agent.rules_model.planning import Answer, Calls, Question, Refusal, next_step
from graph_agent.task_server.declarations import TASK_TOOLS


class RuleBasedAdapter:
    """An offline, deterministic model: the same messages and tools always give the same response. English only.

    It is stateless, calls only tools that are offered, and ends a turn with the reply forms where they are offered, otherwise
    in plain text.
    """

    def __init__(self, declarations: Sequence[ToolDeclaration] | None = None) -> None:
        """`declarations` are what `get_tool_declarations` chooses from; the five task tools by default."""
        self._declarations = tuple(TASK_TOOLS if declarations is None else declarations)

    @property
    def model(self) -> str:
        return "rules"

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,  # noqa: ARG002 (the grammar has no temperature)
        max_tokens: int = 1024,  # noqa: ARG002 (the replies are short)
        *,
        system_instruction: str | None = None,  # noqa: ARG002 (the policy is built in)
        tool_choice: ToolChoice = "auto",  # noqa: ARG002 (every response is a call where the forms are offered)
    ) -> LLMResponse:
        """Return the next calls of the turn that `messages` end in, or its reply. Never raises."""
        offered = frozenset(tool.name for tool in tools)
        match next_step(read_conversation(messages), offered):
            case Calls(calls):
                return LLMResponse(function_calls=list(calls), finish_reason="tool_calls")
            case Answer(text, reports_change):
                return _reply(ANSWER, {"text": text, "reports_change": reports_change}, text, offered)
            case Question(text, reason):
                return _reply(ASK_USER, {"question": text, "reason": reason}, text, offered)
            case Refusal(text):
                return _reply(DECLINE, {"text": text}, text, offered)

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        """Return the declarations of `tools`, in that order. Raises `ToolNotFoundError` for an unknown name."""
        return select_declarations(self._declarations, tools)


def _reply(form: str, arguments: dict[str, str | bool], text: str, offered: frozenset[str]) -> LLMResponse:
    if form in offered:
        return LLMResponse(function_calls=[FunctionCall(name=form, arguments=dict(arguments))], finish_reason="tool_calls")
    return LLMResponse(content=text, finish_reason="stop")
