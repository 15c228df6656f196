"""LangChain's prebuilt agent, with its `AsyncSqliteSaver` where a conversation is stored."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.peers.files import growth
from benchmarks.peers.turns import ANSWER, MESSAGE, PROMPT, TOOL, Conversation, Turn, act
from graph_agent.task_server.declarations import TASK_TOOLS

PACKAGE = "langchain"
Act = Callable[..., Awaitable[str]]


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
        calls = [{"name": TOOL, "args": {"description": f"task {done}"}, "id": str(done)}] if done < self.rounds else []
        message = AIMessage(content="" if calls else ANSWER, tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


def agent(model: BaseChatModel, act: Act, checkpointer: Any = None) -> Any:
    """Return a compiled `create_agent` whose five tools run `act`."""
    tools = [
        StructuredTool.from_function(coroutine=act, name=each.name, description=each.description, args_schema=each.parameters)
        for each in TASK_TOOLS
    ]
    return create_agent(model, tools, system_prompt=PROMPT, checkpointer=checkpointer)


def history(texts: Sequence[str]) -> list[AnyMessage]:
    """Return texts as messages of the user and the model in turn."""
    return [HumanMessage(text) if number % 2 == 0 else AIMessage(text) for number, text in enumerate(texts)]


def turn_of(rounds: int, texts: Sequence[str] = (), *, converts: bool = True) -> Turn:
    """Return a function that runs one turn after `texts`, with a tool in the process and nothing stored."""
    compiled = agent(InstantChatModel(rounds=rounds, converts=converts), act)

    async def turn() -> Any:
        return await compiled.ainvoke({"messages": [*history(texts), HumanMessage(MESSAGE)]})

    return turn


def conversation(folder: str, stack: AsyncExitStack, durability: str = "async") -> Conversation:
    """Return one conversation of a thread that a saver keeps: after each step, or with `durability="exit"` after each turn."""
    opened: list[Any] = []

    async def turn() -> int:
        if not opened:
            saver = await stack.enter_async_context(AsyncSqliteSaver.from_conn_string(f"{folder}/checkpoints.db"))
            opened.append(agent(InstantChatModel(rounds=1), act, saver))
        thread = {"configurable": {"thread_id": "c"}}
        with growth(folder) as grown:
            await opened[0].ainvoke({"messages": [HumanMessage(MESSAGE)]}, thread, durability=durability)
        return grown()

    return turn
