"""The adapter for servers with OpenAI's chat completions protocol, and the conversion between our models and its JSON.

Gemini's compatible endpoint, OpenAI, Ollama, vLLM, llama.cpp and many others use the protocol, each a little differently. The
message that the model sent is stored unchanged. Of it, the fields that every server accepts are sent back, `extra_content`,
which has Gemini's signatures, and the reasoning beside the calls, under the name that the server gave it: a server in thinking
mode refuses a request without it.

The adapter posts JSON by the HTTP client itself: the protocol is one request, and a library's models of it would drop the
fields that they do not know, such as `extra_content`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from graph_agent.llm import response_parsing as parsing
from graph_agent.llm.config import LLMConfig, check_base_url, make_config
from graph_agent.llm.families import Effort, family_of, output_tokens, plain_name
from graph_agent.llm.gemini import UNSIGNED
from graph_agent.llm.model_markup import strip_model_markup
from graph_agent.llm.openai_schema import UnsendableSchemaError, sendable_parameters
from graph_agent.llm.provider_adapter import Post, ProviderAdapter
from graph_agent.llm.wire import OPENAI_NAME, WireNames, pair_results
from graph_agent.models.llm import LLMMessage, LLMRequest, LLMResponse, TokenUsage, ToolDeclaration
from graph_agent.ports import Clock

if TYPE_CHECKING:
    # Only named in signatures: the client is imported with the first request, because that takes long.
    import httpx

_log = logging.getLogger(__name__)

GEMINI_ENDPOINT = "https://generativelanguage.googleapis.com/v1beta/openai/"
_PATH = "/chat/completions"

NO_KEY = "none"
"""The key that is sent to a self-hosted server that needs none: some refuse a request without one."""

PROVIDER = "openai"

REAL_NAMES = WireNames(OPENAI_NAME)
"""Replaces no name."""

_SENT_BACK = ("content", "extra_content", "reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_FINISHES = {
    **dict.fromkeys(("", "stop"), parsing.Finish.COMPLETE),
    **dict.fromkeys(
        ("tool_calls", "function_call", "function_call_filter: unexpected_tool_call"), parsing.Finish.ANNOUNCES_CALL
    ),
    **dict.fromkeys(("length", "max_tokens"), parsing.Finish.TRUNCATED),
    "content_filter": parsing.Finish.BLOCKED,
}


_STORING_HOSTS = frozenset({urlsplit(GEMINI_ENDPOINT).hostname, "api.openai.com"})
"""The hosts that may store what they answer. Many other servers refuse a field that they do not know."""

_REASONING = ("gpt-5", "o1", "o3", "o4")
"""OpenAI's models that take a reasoning effort, no temperature, and the output limit under another name."""


class OpenAICompatibleAdapter(ProviderAdapter):
    """An `LLMAdapter` for Gemini's compatible endpoint, or for the server at `base_url`: Ollama, vLLM, llama.cpp, OpenAI.

    `config` sets the limits; the arguments replace its key and model. The key may be empty if `base_url` is given.
    """

    def __init__(
        self,
        api_key: str,
        model: str,
        *,
        base_url: str | None = None,
        config: LLMConfig | None = None,
        declarations: Sequence[ToolDeclaration] | None = None,
        allow_storage: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Unless `allow_storage`, a provider that may store requests is asked not to. `clock` says which models are routed now.

        Raises `ConfigurationError` for an invalid key, model name or URL.
        """
        key = api_key if api_key.strip() or not base_url else NO_KEY
        checked, root = make_config(key, model, config), check_base_url(base_url or GEMINI_ENDPOINT, _PATH)
        forbids_storage = not allow_storage and urlsplit(root).hostname in _STORING_HOSTS
        super().__init__(checked, root, declarations, clock=clock, forbids_storage=forbids_storage)
        self._warned: set[str] = set()
        """The tools that were left out with a warning."""
        self._headers = {"authorization": f"Bearer {self._config.api_key}"}

    def _open_post(self, http: httpx.AsyncClient) -> Post:
        async def post(body: dict[str, Any], seconds: float) -> str:
            return (await http.post(self._base_url + _PATH, json=body, headers=self._headers, timeout=seconds)).text

        return post

    def _build_request(self, request: LLMRequest, answering: str, *, require_call: bool) -> dict[str, Any]:
        tools, left_out = sendable_tools(request.tools)
        self._warn(left_out)
        names = WireNames(OPENAI_NAME, tools, request.messages)
        return {
            "model": self.model,
            "messages": build_messages(request.messages, answering, request.system_instruction, names),
            **build_settings(answering, request, self._config.thinking),
            **({"tools": build_tools(tools, names)} if tools else {}),
            # A string, never an object that names a function: LM Studio and others accept only strings.
            **({"tool_choice": "required"} if require_call else {}),
            **({"store": False} if self._forbids_storage else {}),
        }

    def unsendable(self, tools: Sequence[ToolDeclaration]) -> dict[str, str]:
        return sendable_tools(tools)[1]

    def _warn(self, left_out: dict[str, str]) -> None:
        for name, why in left_out.items():
            if name not in self._warned:
                self._warned.add(name)
                _log.warning("the tool %s is not offered to the model: %s", name, why)

    def _parse(self, text: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
        return parse_response(text, self.model, tools)

    def _models_request(self) -> tuple[str, dict[str, str]]:
        return f"{self._base_url}/models", self._headers


def build_settings(model: str, request: LLMRequest, effort: Effort) -> dict[str, Any]:
    """Return the generation settings that `model` accepts. Reasoning counts against the output limit."""
    name, family = plain_name(model), family_of(model)
    is_gemini, reasons = name.startswith("gemini"), name.startswith(_REASONING)
    thinks = family.thinking is not None if is_gemini else reasons
    takes_temperature = family.takes_temperature if is_gemini else not reasons
    tokens = output_tokens(family, effort, request.max_tokens) if thinks else request.max_tokens
    return {
        "max_completion_tokens" if reasons else "max_tokens": tokens,
        **({"temperature": request.temperature} if takes_temperature else {}),
        **({"reasoning_effort": effort} if thinks else {}),
    }


def build_messages(
    messages: Sequence[LLMMessage], model: str, system_instruction: str | None, names: WireNames = REAL_NAMES
) -> list[dict[str, Any]]:
    """Return `messages` as `messages`. After a message with calls follows one `tool` message for each call, in call order."""
    sent: list[dict[str, Any]] = [{"role": "system", "content": system_instruction}] if system_instruction else []
    signed = plain_name(model).startswith("gemini") and family_of(model).signs_calls
    call_ids = _new_call_ids(messages)
    for group, results in pair_results(messages):
        if group[0].role == "user":
            sent += [{"role": "user", "content": message.content} for message in group]
            continue
        left = iter(results)
        for message in group:
            assistant = _assistant(message, names, signed=signed)
            sent.append(assistant)
            for call in assistant.get("tool_calls") or []:
                call["id"] = call.get("id") or next(call_ids)
                content = json.dumps(next(left), ensure_ascii=False, separators=(",", ":"))
                sent.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    return sent


def build_tools(declarations: Sequence[ToolDeclaration], names: WireNames = REAL_NAMES) -> list[dict[str, Any]]:
    """Return `declarations` as `tools`."""
    return [{"type": "function", "function": function} for function in names.declare(declarations, "parameters")]


def sendable_tools(tools: Sequence[ToolDeclaration]) -> tuple[list[ToolDeclaration], dict[str, str]]:
    """Return `tools` with schemas that OpenAI accepts, and for each tool that has none its name and why."""
    sendable, left_out = [], {}
    for tool in tools:
        try:
            parameters = sendable_parameters(tool.parameters)
        except UnsendableSchemaError as exc:
            left_out[tool.name] = str(exc)
            continue
        same = parameters is tool.parameters
        sendable.append(tool if same else tool.model_copy(update={"parameters": parameters}))
    return sendable, left_out


def parse_response(body: str, model: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
    """Parse `body`, a response with the status 200. Raises `LLMError` (BLOCKED) or `InvalidResponseError`."""
    fields = parsing.parse_object(body)
    choice = parsing.first_choice(fields, "choices")
    reason = parsing.as_text(choice.get("finish_reason")).lower()
    # Gemini's endpoint appends the name of the filter: `content_filter: PROHIBITED_CONTENT`.
    finish = parsing.read_finish("content_filter" if reason.startswith("content_filter") else reason, _FINISHES)
    message = parsing.as_object(choice.get("message"))
    parsing.check_storable(message)
    calls = _calls(message)
    for signed in (message, *calls):
        _check_signature(signed)
    return parsing.make_response(
        _text(message),
        [_called(call) for call in calls],
        WireNames(OPENAI_NAME, tools),
        tools,
        finish,
        read_arguments=_read_arguments,
        usage=_usage(fields.get("usage")),
        provider_parts={"provider": PROVIDER, "model": model, "message": message},
        response_model=parsing.read_model_name(fields.get("model")),
    )


def _usage(counts: Any) -> TokenUsage | None:
    if not isinstance(counts, dict):
        return None
    details = counts.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return parsing.make_usage(counts.get("prompt_tokens"), counts.get("completion_tokens"), counts.get("total_tokens"), cached)


_TEXT_FIELDS = {"": "text", "text": "text", "output_text": "text", "refusal": "refusal"}
"""Type of a part that the user reads -> the field with its text. Parts of other types are reasoning, under various names."""


def _text(message: dict[str, Any]) -> str:
    """Return the text for the user. Some servers leave the model's reasoning in front of it."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(
            parsing.as_text(part.get(_TEXT_FIELDS.get(parsing.as_text(part.get("type")), "")))
            for part in parsing.as_objects(content)
        )
    return strip_model_markup(parsing.as_text(content)) or parsing.as_text(message.get("refusal"))


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the calls in a message; some servers still send `function_call`, the older form for a single call."""
    legacy = message.get("function_call")
    return parsing.as_objects(message.get("tool_calls")) or ([{"function": legacy}] if legacy is not None else [])


def _called(call: dict[str, Any]) -> parsing.Called:
    function = parsing.as_object(call.get("function"))
    return function.get("name"), function.get("arguments"), call.get("id")


def _read_arguments(written: Any) -> dict[str, Any]:
    if isinstance(written, dict):  # the protocol requires JSON text, but some servers send the object itself
        return written
    text = parsing.as_text(written)
    arguments = parsing.parse_object(text, unique=True) if text.strip() else {}
    parsing.check_storable(arguments)
    return arguments


def _check_signature(signed: dict[str, Any]) -> None:
    extra = signed.get("extra_content")
    google = extra.get("google") if isinstance(extra, dict) else None
    parsing.check_signature(google.get("thought_signature") if isinstance(google, dict) else None)


def _assistant(message: LLMMessage, names: WireNames, *, signed: bool) -> dict[str, Any]:
    stored = _stored_message(message, names)
    if stored is not None:
        return stored
    assistant: dict[str, Any] = {"role": "assistant", "content": message.content}
    # Parts of another provider: its ids mean nothing to this one.
    foreign = message.provider_parts is not None
    calls: list[dict[str, Any]] = [
        {
            "id": "" if foreign else call.id or "",
            "type": "function",
            "function": {"name": names.wire(call.name), "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for call in message.function_calls or []
    ]
    if calls:
        assistant["tool_calls"] = calls
        if signed:
            calls[0]["extra_content"] = {"google": {"thought_signature": UNSIGNED}}
    return assistant


def _stored_message(message: LLMMessage, names: WireNames) -> dict[str, Any] | None:
    """Return the message that the provider sent, if `message` has it and its calls or its text are still the same."""
    parts = message.provider_parts or {}
    stored = parts.get("message") if parts.get("provider") == PROVIDER else None
    if not isinstance(stored, dict):
        return None
    calls = _calls(stored)
    if not names.unchanged(message, list(map(_called, calls)), _text(stored)):
        return None
    fields = {key: stored[key] for key in _SENT_BACK if stored.get(key) is not None}
    if calls:
        fields["tool_calls"] = [_complete_call(call, names) for call in calls]
    return {"role": "assistant", "content": message.content, **fields}


def _complete_call(call: dict[str, Any], names: WireNames) -> dict[str, Any]:
    """Return a call as the server sent it, completed with what the protocol requires and the server left out."""
    function = call["function"]
    arguments = function.get("arguments")
    if not isinstance(arguments, str) or not arguments.strip():
        arguments = json.dumps(arguments if isinstance(arguments, dict) else {}, ensure_ascii=False)
    # A model that knows the real name from the prompt may use it, although the protocol does not allow it.
    return {**call, "type": "function", "function": {**function, "name": names.wire(function["name"]), "arguments": arguments}}


def _new_call_ids(messages: Sequence[LLMMessage]) -> Iterator[str]:
    """Yield ids for calls without one: the protocol requires an id for every call and its result."""
    taken = {call.id for message in messages for call in message.function_calls or []}
    return (f"call_{n}" for n in count(1) if f"call_{n}" not in taken)
