"""A chat model of LangChain that gives scripted messages, and a graph of LangGraph with one node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Interrupt
from pydantic import Field

THREAD: Any = {"configurable": {"thread_id": "1"}}


class ScriptedChatModel(BaseChatModel):
    """Gives the next message of the script, or raises the next exception, and keeps what it was asked."""

    script: list[Any]
    asked: list[list[BaseMessage]] = Field(default_factory=list)
    bound: list[dict[str, Any]] = Field(default_factory=list)

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Any:
        self.bound.append({"tools": tools, **options})
        return self

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.asked.append(messages)
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return ChatResult(generations=[ChatGeneration(message=step)])


def requests(*calls: tuple[str, dict[str, Any]]) -> AIMessage:
    """A message with these calls, whose ids are `id1`, `id2` and so on."""
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": f"id{n}"} for n, (name, args) in enumerate(calls, 1)])


def graph_with(node: Callable[..., Any], saver: Any = None) -> Any:
    """A compiled graph over `messages` whose only node is `node`."""
    graph = StateGraph(MessagesState)
    graph.add_node("assistant", node)
    graph.add_edge(START, "assistant")
    return graph.compile(checkpointer=InMemorySaver() if saver is None else saver)


def said(text: str) -> dict[str, Any]:
    return {"messages": [HumanMessage(text)]}


def answer_to(asked: Interrupt, answer: bool | str, **more: Any) -> dict[str, Any]:
    """The answer to the question of an interrupt: a boolean is a yes or no, and a text what the user typed."""
    said = {"yes": answer} if isinstance(answer, bool) else {"text": answer}
    return {"pending_action": asked.value["pending_action"]["id"], **said, **more}


def resume(asked: Interrupt, answer: bool | str) -> Command[Any]:
    """The command that answers an interrupt, by its id."""
    return Command(resume={asked.id: answer_to(asked, answer)})
