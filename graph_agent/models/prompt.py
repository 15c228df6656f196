"""The prompt of a turn: the request to the model, and the origin of each message in it. Nothing is added without one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from graph_agent.models.decision import Message
from graph_agent.models.llm import FunctionCall, FunctionResponse, LLMMessage, LLMRequest, LLMResponse
from graph_agent.models.origin import Origin


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message of a prompt. The least trusted author of its texts is its origin."""

    message: LLMMessage
    origin: Origin


def by_user(text: str) -> PromptMessage:
    return PromptMessage(LLMMessage(role="user", content=text), Origin.USER)


def said_earlier(said: Message) -> PromptMessage:
    """Return a message of an earlier turn. What a conversation has read before is known from its record."""
    origin = said.origin or (Origin.USER if said.role == "user" else Origin.MODEL)
    return PromptMessage(LLMMessage(role=said.role, content=said.content), origin)


def by_model(response: LLMResponse) -> PromptMessage:
    """Return a response that has calls."""
    calls, parts = response.function_calls or [], response.provider_parts
    message = LLMMessage(role="assistant", content=response.content, function_calls=calls, provider_parts=parts)
    return PromptMessage(message, Origin.MODEL)


def confirmed_calls(calls: Sequence[FunctionCall]) -> PromptMessage:
    """Return the calls that the user has confirmed, which the model has requested in an earlier turn."""
    return PromptMessage(LLMMessage(role="assistant", function_calls=list(calls)), Origin.MODEL)


def reply(text: str) -> PromptMessage:
    """Return the end of a conversation, which the model of this turn does not read any more."""
    return PromptMessage(LLMMessage(role="assistant", content=text), Origin.MODEL)


def answer_to(call: FunctionCall, body: dict[str, Any], origin: Origin) -> PromptMessage:
    """Return the answer to a call: the result that a server gave, or what code says about it."""
    answer = FunctionResponse(name=call.name, response=body, id=call.id)
    return PromptMessage(LLMMessage(role="function", function_response=answer), origin)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request to the model with the origins of its messages, in their order.

    Its instruction and its declarations are the operator's; a definition that has changed during the conversation is foreign.
    """

    request: LLMRequest
    origins: tuple[Origin, ...]

    def __post_init__(self) -> None:
        if len(self.origins) != len(self.request.messages):
            raise TypeError("each message of a prompt has an origin: add it with `Prompt.extended`")

    @classmethod
    def of(cls, request: LLMRequest, *messages: PromptMessage) -> Self:
        """Return the prompt of a request that has no messages yet."""
        return cls(request, ()).extended(*messages)

    def extended(self, *messages: PromptMessage) -> Self:
        """Return this prompt with more messages, without validating the earlier ones again."""
        whole = [*self.request.messages, *(one.message for one in messages)]
        return replace(
            self,
            request=self.request.model_copy(update={"messages": whole}),
            origins=(*self.origins, *(one.origin for one in messages)),
        )

    def with_tools_named(self, names: Collection[str]) -> Self:
        """Return this prompt with the declarations of these names only."""
        tools = [tool for tool in self.request.tools if tool.name in names]
        return replace(self, request=self.request.model_copy(update={"tools": tools}))

    @property
    def foreign(self) -> bool:
        """True if the model reads a text of a server that is not trusted, so that every call after it is tainted."""
        return Origin.FOREIGN in self.origins
