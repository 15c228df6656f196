"""LangChain's prebuilt agent as a peer: the same prompt and tools, on a chat model that answers at once."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from graph_agent.policy.constitution import Constitution
from graph_agent.task_server.declarations import TASK_TOOLS

Act = Callable[..., Awaitable[str]]
MESSAGE = "add a task to call mom"
PEER = "create_agent"


class InstantChatModel(BaseChatModel):
    """Calls `add_task` in so many rounds, then says one sentence.

    `converts` says whether binding tools converts them to the provider's form, as chat models do for each call.
    """

    rounds: int
    converts: bool = True

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.bind(tools=[convert_to_openai_tool(each) for each in tools]) if self.converts else self

    @property
    def _llm_type(self) -> str:
        return "instant"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        done = sum(1 for _ in itertools.takewhile(lambda each: not isinstance(each, HumanMessage), reversed(messages))) // 2
        calls = [{"name": "add_task", "args": {"description": f"task {done}"}, "id": str(done)}] if done < self.rounds else []
        message = AIMessage(content="" if calls else "Done.", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


def agent(model: BaseChatModel, act: Act, checkpointer: Any = None) -> Any:
    """Return a compiled `create_agent` whose five tools run `act`."""
    tools = [
        StructuredTool.from_function(coroutine=act, name=each.name, description=each.description, args_schema=each.parameters)
        for each in TASK_TOOLS
    ]
    return create_agent(model, tools, system_prompt=Constitution.load().text, checkpointer=checkpointer)


def history(texts: Sequence[str]) -> list[AnyMessage]:
    """Return texts as messages of the user and the model in turn."""
    return [HumanMessage(text) if number % 2 == 0 else AIMessage(text) for number, text in enumerate(texts)]


def turn_of(rounds: int, *, converts: bool, texts: Sequence[str] = ()) -> Callable[[], Awaitable[Any]]:
    """Return a function that runs one turn, with a tool in the process and nothing stored."""

    async def act(**arguments: Any) -> str:
        return str(arguments)

    compiled = agent(InstantChatModel(rounds=rounds, converts=converts), act)

    async def turn() -> Any:
        return await compiled.ainvoke({"messages": [*history(texts), HumanMessage(MESSAGE)]})

    return turn
