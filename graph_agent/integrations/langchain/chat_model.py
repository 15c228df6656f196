"""The adapter for the chat models of LangChain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, convert_to_messages, message_to_dict, messages_from_dict

from graph_agent.errors import ConfigurationError, InvalidResponseError
from graph_agent.llm.adapter_call import RequestAdapter
from graph_agent.llm.openai_compatible import build_messages, build_tools
from graph_agent.llm.provider_errors import StatusError, failure_for_status, timeout_failure
from graph_agent.llm.response_parsing import Finish, check_storable, make_response, make_usage, read_finish, read_model_name
from graph_agent.llm.wire import OPENAI_NAME, WireNames
from graph_agent.models.llm import LLMMessage, LLMRequest, LLMResponse, ToolDeclaration

_PROVIDER: Final = "langchain"
_FINISHES: Final = {
    **dict.fromkeys(("length", "max_tokens", "model_length"), Finish.TRUNCATED),
    **dict.fromkeys(("content_filter", "safety", "refusal", "recitation", "prohibited_content", "blocklist"), Finish.BLOCKED),
}
"""The finish reasons of LangChain's packages in lower case, but for those of a complete message."""


class ChatModelAdapter(RequestAdapter):
    """An `LLMAdapter` for any chat model of LangChain that can call tools.

    The model keeps its own temperature, limits and retries. What it has sent is stored unchanged and sent back in later rounds,
    with the signatures that some providers require.
    """

    def __init__(self, model: BaseChatModel, *, declarations: Sequence[ToolDeclaration] | None = None) -> None:
        """Raises `ConfigurationError` for a model that cannot call tools."""
        super().__init__(declarations)
        if type(model).bind_tools is BaseChatModel.bind_tools:
            raise ConfigurationError(f"{type(model).__name__} cannot call tools: it has no method 'bind_tools'")
        self._chat_model = model

    @property
    def model(self) -> str:
        names = (getattr(self._chat_model, field, None) for field in ("model_name", "model"))
        return next((name for name in names if isinstance(name, str) and name), type(self._chat_model).__name__)

    async def respond(self, request: LLMRequest) -> LLMResponse:
        names = WireNames(OPENAI_NAME, request.tools, request.messages)
        # "any" is LangChain's word for a required call.
        choice = {"tool_choice": "any"} if request.tool_choice == "required" else {}
        model = self._chat_model.bind_tools(build_tools(request.tools, names), **choice) if request.tools else self._chat_model
        try:
            message = await model.ainvoke(list(_messages(request, names)))
        except TimeoutError as exc:
            raise timeout_failure().error from exc
        except Exception as exc:
            # The SDKs of the providers have exceptions of many types; most have the status of the response.
            status = getattr(exc, "status_code", None) or getattr(exc, "code", None)
            if isinstance(status, int):
                raise failure_for_status(StatusError(status, text=str(exc))).error from exc
            raise
        return _response(message, request, names)


def _messages(request: LLMRequest, names: WireNames) -> Iterator[BaseMessage]:
    """Yield the messages of a request; those that the model sent are as it sent them."""
    plain = [message.model_copy(update={"provider_parts": None}) for message in request.messages]
    sent = iter(message for message in request.messages if message.role == "assistant")
    for message in convert_to_messages(build_messages(plain, "", request.system_instruction, names)):
        yield (_stored(next(sent)) or message) if isinstance(message, AIMessage) else message


def _stored(message: LLMMessage) -> BaseMessage | None:
    parts = message.provider_parts or {}
    return messages_from_dict([parts["message"]])[0] if parts.get("provider") == _PROVIDER else None


def _response(message: AIMessage, request: LLMRequest, names: WireNames) -> LLMResponse:
    """Return the response in a message. Raises `LLMError` (BLOCKED) or `InvalidResponseError`."""
    if message.invalid_tool_calls:
        raise InvalidResponseError("the arguments of a call of the model cannot be read")
    metadata, usage = message.response_metadata, message.usage_metadata
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
    finish = read_finish(str(reason).lower(), {str(reason).lower(): Finish.COMPLETE, **_FINISHES})
    stored: dict[str, Any] = message_to_dict(message)
    check_storable(stored)
    return make_response(
        message.text,
        [(call["name"], call["args"], call["id"]) for call in message.tool_calls],
        names,
        request.tools,
        finish,
        usage=usage and make_usage(usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]),
        # A call without an id gets another one in every request, which a stored message would not have.
        provider_parts={"provider": _PROVIDER, "message": stored} if all(call["id"] for call in message.tool_calls) else None,
        response_model=read_model_name(metadata.get("model_name")),
    )
