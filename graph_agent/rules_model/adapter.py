"""The model that is always there: the rules of a careful task assistant, spoken through the same protocol as an LLM."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.llm.declarations import TASK_TOOLS, select
from graph_agent.rules_model.conversation import take_apart
from graph_agent.rules_model.deciding import Answer, Calls, Question, Refusal, Step, next_step
from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolDeclaration

ASK_USER, DECLINE = "ask_user", "decline"


class RuleBasedAdapter:
    """Offline and deterministic: the same messages and tools always give the same answer. English only.

    It knows nothing but the messages, calls only tools that are offered, and asks and declines through the reply forms where
    these are offered, in plain text elsewhere.
    """

    def __init__(self, declarations: Sequence[ToolDeclaration] | None = None) -> None:
        """`declarations` are what `get_tool_declarations` chooses from: the five task tools unless given."""
        self._declarations = tuple(TASK_TOOLS if declarations is None else declarations)

    @property
    def model(self) -> str:
        return "rules"

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,  # noqa: ARG002 - rules have no temperature
        max_tokens: int = 1024,  # noqa: ARG002 - the replies are short
        *,
        system_instruction: str | None = None,  # noqa: ARG002 - the policy is built in
    ) -> LLMResponse:
        """The next step of the turn that `messages` end in. Never raises."""
        offered = frozenset(tool.name for tool in tools)
        return _response(next_step(take_apart(messages), offered), offered)

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        """The declarations of `tools`, in that order. Raises `ToolNotFoundError` for a name it does not have."""
        return select(self._declarations, tools)


def _response(step: Step, offered: frozenset[str]) -> LLMResponse:
    match step:
        case Calls(calls):
            return LLMResponse(function_calls=list(calls), finish_reason="tool_calls")
        case Question(text, reason) if ASK_USER in offered:
            form = FunctionCall(name=ASK_USER, arguments={"question": text, "reason": reason})
            return LLMResponse(function_calls=[form], finish_reason="tool_calls")
        case Refusal(text) if DECLINE in offered:
            form = FunctionCall(name=DECLINE, arguments={"message": text})
            return LLMResponse(function_calls=[form], finish_reason="tool_calls")
        case Question(text) | Refusal(text) | Answer(text):
            return LLMResponse(content=text, finish_reason="stop")
