"""The two APIs from the side of the server: classes with the same methods, which build the JSON of replies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from graph_agent.llm.config import LLMConfig
from graph_agent.llm.gemini import GeminiAdapter
from graph_agent.llm.openai_compatible import OpenAICompatibleAdapter
from graph_agent.models.llm import ToolDeclaration

NOTHING: Any = object()
"""The value of a field that is left out."""

SIGNATURE = "c2lnbmF0dXJl"

TOOL = ToolDeclaration(
    name="measure",
    description="Measure something.",
    parameters={
        "type": "object",
        "properties": {
            "count": {"type": "integer"},
            "size": {"type": "number"},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "rows": {"type": "array", "items": {"$ref": "#/$defs/Row"}},
            "note": {"type": "string"},
        },
        "$defs": {"Row": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}},
    },
)


@dataclass(frozen=True)
class Call:
    """A call as a server sends it; `NOTHING` leaves a field out."""

    name: Any = "measure"
    args: Any = field(default_factory=lambda: {"note": "x"})
    id: Any = NOTHING
    signature: Any = NOTHING


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not NOTHING}


class GeminiAPI:
    """Gemini's `generateContent`."""

    name = "gemini"
    many, one, reason = "candidates", "content", "finishReason"
    words: ClassVar = {
        "stop": "STOP",
        "calls": "STOP",
        "truncated": "MAX_TOKENS",
        "blocked": "SAFETY",
        "undeclared": "UNEXPECTED_TOOL_CALL",
        "malformed": "MALFORMED_FUNCTION_CALL",
        "other": "OTHER",
    }
    model = "gemini-3.8-flash"

    def adapter(self, url: str, config: LLMConfig) -> GeminiAdapter:
        return GeminiAdapter("secret-key", self.model, base_url=url, config=config, declarations=[TOOL])

    def requires_call(self, request: Any) -> bool:
        assert request.get("toolConfig") in (None, {"functionCallingConfig": {"mode": "ANY"}})
        return "toolConfig" in request

    def content(self, *parts: Any) -> dict[str, Any]:
        return {"role": "model", "parts": list(parts)}

    def answer(
        self, *, text: Any = None, calls: Sequence[Call] = (), finish: Any = "stop", usage: Any = NOTHING, **more: Any
    ) -> dict[str, Any]:
        parts: list[Any] = [] if text is None else [{"text": text}]
        parts += [
            _present(functionCall=_present(name=call.name, args=call.args, id=call.id), thoughtSignature=call.signature)
            for call in calls
        ]
        return self.wrap(self.content(*parts), finish, usage, **more)

    def wrap(self, content: Any, finish: Any = "stop", usage: Any = NOTHING, **more: Any) -> dict[str, Any]:
        candidate = _present(content=content, finishReason=self.word(finish), index=0)
        return _present(candidates=[candidate], usageMetadata=usage) | more

    def word(self, finish: Any) -> Any:
        return self.words.get(finish, finish) if isinstance(finish, str) else finish

    def counted(self, prompt: Any, completion: Any, total: Any) -> dict[str, Any]:
        return {"promptTokenCount": prompt, "candidatesTokenCount": completion, "totalTokenCount": total}

    def error(self, status: int, *details: dict[str, Any], message: str = "secret-key at 10.0.0.7") -> Any:
        return {"error": {"code": status, "message": message, "status": "X", "details": list(details)}}


class OpenAIAPI:
    """Chat completions, in the form of Gemini's compatible endpoint: empty ids, and errors wrapped in a list."""

    name = "openai"
    many, one, reason = "choices", "message", "finish_reason"
    words: ClassVar = {
        "stop": "stop",
        "calls": "tool_calls",
        "truncated": "length",
        "blocked": "content_filter",
        "undeclared": "function_call_filter: UNEXPECTED_TOOL_CALL",
        "malformed": "function_call_filter: MALFORMED_FUNCTION_CALL",
        "other": "error",
    }
    model = "gemini-3.8-flash"

    def adapter(self, url: str, config: LLMConfig) -> OpenAICompatibleAdapter:
        return OpenAICompatibleAdapter("secret-key", self.model, base_url=url, config=config, declarations=[TOOL])

    def requires_call(self, request: Any) -> bool:
        assert request.get("tool_choice") in (None, "required")
        return "tool_choice" in request

    def answer(
        self, *, text: Any = None, calls: Sequence[Call] = (), finish: Any = "stop", usage: Any = NOTHING, **more: Any
    ) -> dict[str, Any]:
        written = [self._written(call) for call in calls]
        message = _present(role="assistant", content=text, tool_calls=written or NOTHING)
        return self.wrap(message, finish, usage, **more)

    def wrap(self, message: Any, finish: Any = "stop", usage: Any = NOTHING, **more: Any) -> dict[str, Any]:
        choice = _present(index=0, message=message, finish_reason=self.word(finish))
        return _present(object="chat.completion", choices=[choice], usage=usage) | more

    def word(self, finish: Any) -> Any:
        return self.words.get(finish, finish) if isinstance(finish, str) else finish

    def counted(self, prompt: Any, completion: Any, total: Any) -> dict[str, Any]:
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}

    def error(self, status: int, *details: dict[str, Any], message: str = "secret-key at 10.0.0.7") -> Any:
        return [{"error": {"code": status, "message": message, "status": "X", "details": list(details)}}]

    def _written(self, call: Call) -> dict[str, Any]:
        arguments = call.args if call.args is NOTHING or call.args is None else json.dumps(call.args)
        extra = NOTHING if call.signature is NOTHING else {"google": {"thought_signature": call.signature}}
        return _present(
            id="" if call.id is NOTHING else call.id,
            type="function",
            function=_present(name=call.name, arguments=arguments),
            extra_content=extra,
        )


API = GeminiAPI | OpenAIAPI
APIS: tuple[API, ...] = (GeminiAPI(), OpenAIAPI())
