"""The adapter for Gemini, through `langchain-google-genai`, and the conversion between our models and Gemini's JSON.

The content that the model sent is stored and sent back unchanged, with its signatures, ids, thoughts, code and unknown parts.
Only a message without such content (from another provider, or changed by the runtime) is built from our fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_agent.llm import response_parsing as parsing
from graph_agent.llm.config import LLMConfig, check_base_url, make_config
from graph_agent.llm.families import DEFAULT_MODEL, Effort, Family, family_of, output_tokens, thinking_of
from graph_agent.llm.provider_adapter import Post, ProviderAdapter
from graph_agent.llm.provider_errors import blocked_error
from graph_agent.llm.wire import GEMINI_NAME, WireNames, pair_results
from graph_agent.models.llm import LLMMessage, LLMRequest, LLMResponse, TokenUsage, ToolDeclaration
from graph_agent.ports import Clock

if TYPE_CHECKING:
    # Only named in signatures: the client is imported with the first request, because that takes long.
    import httpx

ENDPOINT = "https://generativelanguage.googleapis.com"
_VERSION = "/v1beta"
PROVIDER = "gemini"

REAL_NAMES = WireNames(GEMINI_NAME)
"""Replaces no name."""

UNSIGNED = "skip_thought_signature_validator"
"""Gemini's documented value for the signature of a call that it did not make itself, or whose signature was not stored."""

REQUIRED_CALL = {"functionCallingConfig": {"mode": "ANY"}}
"""The `toolConfig` of a required request. A flat `{"mode": "ANY"}` is a 400."""

_FINISHES = {
    **dict.fromkeys(("", "FINISH_REASON_UNSPECIFIED", "STOP"), parsing.Finish.COMPLETE),
    # The model called a tool that was not declared. The call is read like any other, and refused by the whitelist.
    "UNEXPECTED_TOOL_CALL": parsing.Finish.ANNOUNCES_CALL,
    # CONTINUATION: the limit of one request is reached, and a further request could continue. The limit is the reply's budget.
    **dict.fromkeys(("MAX_TOKENS", "CONTINUATION"), parsing.Finish.TRUNCATED),
    **dict.fromkeys(("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), parsing.Finish.BLOCKED),
    **dict.fromkeys(("MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"), parsing.Finish.BLOCKED),
}


class GeminiAdapter(ProviderAdapter):
    """An `LLMAdapter` for Gemini's `generateContent`.

    It accepts every model name: an unknown one is treated like the newest family. `base_url` replaces Google's endpoint; the
    rest of `/v1beta/models/...` is appended. `config` sets the limits; the arguments replace its key and model. The first
    adapter of a process takes seconds to construct, because it loads the SDK.
    """

    def __init__(
        self,
        api_key: str,
        model: str = DEFAULT_MODEL,
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
        checked, root = make_config(api_key, model, config), check_base_url(base_url or ENDPOINT, _VERSION, "/models")
        # The SDK takes seconds to load: not at import, for programs that use another model, and not in the first turn.
        from graph_agent.llm import gemini_sdk

        self._sdk = gemini_sdk
        super().__init__(checked, root, declarations, clock=clock, forbids_storage=not allow_storage)

    def _open_post(self, http: httpx.AsyncClient) -> Post:
        return self._sdk.open_chat(http, api_key=self._config.api_key, model=self.model, base_url=self._base_url).send

    def _build_request(self, request: LLMRequest, answering: str, *, require_call: bool) -> dict[str, Any]:
        family = family_of(answering)
        names = WireNames(GEMINI_NAME, request.tools, request.messages)
        return {
            "fields": {
                "contents": build_contents(request.messages, family, names),
                **({"tools": build_tools(request.tools, names)} if request.tools else {}),
                **({"toolConfig": REQUIRED_CALL} if require_call else {}),
                # Projects made since 26 October 2026 store every request otherwise.
                **({"store": False} if self._forbids_storage else {}),
            },
            "system_instruction": request.system_instruction,
            "settings": build_settings(family, request, self._config.thinking),
        }

    def _parse(self, text: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
        return parse_response(text, self.model, tools)

    def _models_request(self) -> tuple[str, dict[str, str]]:
        return f"{self._base_url}{_VERSION}/models", {"x-goog-api-key": self._config.api_key}


def build_contents(messages: Sequence[LLMMessage], family: Family, names: WireNames = REAL_NAMES) -> list[dict[str, Any]]:
    """Return `messages` as `contents`. After the calls of a model follows one user content with one result for each call."""
    contents: list[dict[str, Any]] = []
    for group, results in pair_results(messages):
        if group[0].role == "user":
            contents += [{"role": "user", "parts": [{"text": message.content}]} for message in group]
            continue
        answers = [_parts(message, family, names) for message in group]
        contents += [{"role": "model", "parts": parts} for parts in answers]
        if results:
            calls = [part["functionCall"] for parts in answers for part in parts if "functionCall" in part]
            contents.append({"role": "user", "parts": [_result(*pair) for pair in zip(calls, results, strict=True)]})
    return contents


def build_settings(family: Family, request: LLMRequest, effort: Effort) -> dict[str, Any]:
    """Return the generation settings that the models of `family` accept."""
    thinking = thinking_of(family, effort)
    settings = {
        "max_output_tokens": output_tokens(family, effort, request.max_tokens),
        "thinking_level": thinking.level,
        "thinking_budget": thinking.budget,
        "temperature": request.temperature if family.takes_temperature else None,
    }
    return {name: value for name, value in settings.items() if value is not None}


def build_tools(declarations: Sequence[ToolDeclaration], names: WireNames = REAL_NAMES) -> list[dict[str, Any]]:
    """Return `declarations` as `tools`, with their schemas unchanged."""
    return [{"functionDeclarations": names.declare(declarations, "parametersJsonSchema")}]


def parse_response(body: str, model: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
    """Parse `body`, a response with the status 200. Raises `LLMError` (BLOCKED) or `InvalidResponseError`."""
    fields = parsing.parse_object(body, unique=True)
    if parsing.as_object(fields.get("promptFeedback")).get("blockReason") not in (None, "", "BLOCK_REASON_UNSPECIFIED"):
        raise blocked_error()
    candidate = parsing.first_choice(fields, "candidates")
    finish = parsing.read_finish(parsing.as_text(candidate.get("finishReason")).upper(), _FINISHES)
    parts = parsing.as_objects(parsing.as_object(candidate.get("content")).get("parts"))
    parsing.check_storable(parts)
    for part in parts:
        parsing.check_signature(part.get("thoughtSignature"))
    return parsing.make_response(
        _text(parts),
        [_called(part) for part in parts if "functionCall" in part],
        WireNames(GEMINI_NAME, tools),
        tools,
        finish,
        usage=_usage(fields.get("usageMetadata")),
        provider_parts={"provider": PROVIDER, "model": model, "content": parts},
        response_model=parsing.read_model_name(fields.get("modelVersion")),
    )


def _text(parts: Sequence[dict[str, Any]]) -> str:
    return "".join(parsing.as_text(part.get("text")) for part in parts if part.get("thought") is not True)


def _called(part: dict[str, Any]) -> parsing.Called:
    call = parsing.as_object(part["functionCall"])
    return call.get("name"), call.get("args"), call.get("id")


def _usage(counts: Any) -> TokenUsage | None:
    if not isinstance(counts, dict):
        return None
    # Thoughts are billed as output, but counted separately.
    output = [counts.get(key) for key in ("candidatesTokenCount", "thoughtsTokenCount")]
    completion = sum(count for count in output if isinstance(count, int))
    prompt, total, cached = (counts.get(f"{name}TokenCount") for name in ("prompt", "total", "cachedContent"))
    return parsing.make_usage(prompt, completion, total, cached)


def _parts(message: LLMMessage, family: Family, names: WireNames) -> list[dict[str, Any]]:
    stored = _stored_parts(message, names)
    if stored is not None:
        return stored
    # Parts of another provider: its ids mean nothing to Gemini.
    foreign = message.provider_parts is not None
    parts: list[dict[str, Any]] = [{"text": message.content}] if message.content else []
    for n, call in enumerate(message.function_calls or []):
        part: dict[str, Any] = {"functionCall": {"name": names.wire(call.name), "args": call.arguments}}
        if call.id is not None and family.gives_ids and not foreign:
            part["functionCall"]["id"] = call.id
        if n == 0 and family.signs_calls:
            part["thoughtSignature"] = UNSIGNED
        parts.append(part)
    return parts


def _stored_parts(message: LLMMessage, names: WireNames) -> list[dict[str, Any]] | None:
    """Return the parts that Gemini sent, if `message` has them and its calls or its text are still the same."""
    stored = message.provider_parts or {}
    parts = stored.get("content") if stored.get("provider") == PROVIDER else None
    if not isinstance(parts, list) or not parts or not all(isinstance(part, dict) for part in parts):
        return None
    called = [_called(part) for part in parts if isinstance(part.get("functionCall"), dict)]
    # A real name, which the model may have used, is not accepted when it comes back.
    accepted = all(names.allows(name) for name, _, _ in called)
    return parts if accepted and names.unchanged(message, called, _text(parts)) else None


def _result(call: dict[str, Any], response: dict[str, Any]) -> dict[str, Any]:
    # Echoed exactly if the model gave one: since 3.5 a missing id is a 400, and older models refuse an id.
    call_id = {"id": call["id"]} if call.get("id") else {}
    return {"functionResponse": {**call_id, "name": call.get("name"), "response": response}}
