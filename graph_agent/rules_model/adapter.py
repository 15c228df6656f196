"""The embedded model behind the adapter interface."""

from __future__ import annotations

from collections.abc import Sequence

from graph_agent.models.llm import FunctionCall, LLMMessage, LLMResponse, ToolChoice, ToolDeclaration, select_declarations
from graph_agent.reply import forms
from graph_agent.rules_model.conversation import read_conversation
from graph_agent.rules_model.planning import next_step
from graph_agent.rules_model.replies import Reply
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
        step = next_step(read_conversation(messages), offered)
        if isinstance(step, Reply) and step.form not in offered:
            return LLMResponse(content=step.text, finish_reason="stop")
        calls = [FunctionCall(name=step.form, arguments=_arguments(step))] if isinstance(step, Reply) else step
        return LLMResponse(function_calls=calls, finish_reason="tool_calls")

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        """Return the declarations of `tools`, in that order. Raises `ToolNotFoundError` for an unknown name."""
        return select_declarations(self._declarations, tools)


def _arguments(reply: Reply) -> dict[str, str | bool]:
    match reply.form:
        case forms.ASK_USER:
            return {"question": reply.text, "reason": reply.reason}
        case forms.ANSWER:
            return {"text": reply.text, "reports_change": reply.reports_change}
        case _:
            return {"text": reply.text}
