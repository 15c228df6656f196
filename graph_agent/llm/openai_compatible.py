"""The adapter for servers with OpenAI's chat completions protocol, through the `openai` SDK."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_agent.llm.config import LLMConfig, check_base_url, make_config
from graph_agent.llm.openai_wire import build_messages, build_settings, build_tools, parse_response
from graph_agent.llm.provider_adapter import Chat, ModelCall, ProviderAdapter
from graph_agent.llm.wire_names import OPENAI_NAME, WireNames
from graph_agent.models.llm import LLMResponse, ToolDeclaration

if TYPE_CHECKING:
    import httpx

GEMINI_ENDPOINT = "https://generativelanguage.googleapis.com/v1beta/openai/"

NO_KEY = "none"
"""The key that is sent to a self-hosted server that needs none: the SDK refuses an empty one."""


class OpenAICompatibleAdapter(ProviderAdapter):
    """An `LLMAdapter` for Gemini's compatible endpoint, or for the server at `base_url`: Ollama, vLLM, llama.cpp, OpenAI.

    `config` sets the limits; the arguments replace its key and model. The key may be empty if `base_url` is given. The first
    adapter of a process takes a second or two to construct, because it loads the SDK.
    """

    def __init__(
        self,
        api_key: str,
        model: str,
        *,
        base_url: str | None = None,
        config: LLMConfig | None = None,
        declarations: Sequence[ToolDeclaration] | None = None,
    ) -> None:
        """Raises `ConfigurationError` for an invalid key, model name or URL."""
        key = api_key if api_key.strip() or not base_url else NO_KEY
        checked, root = make_config(key, model, config), _root(check_base_url(base_url or GEMINI_ENDPOINT))
        # The SDK takes a while to load: not at import, for programs that use another model, and not in the first turn.
        from graph_agent.llm import openai_sdk

        self._sdk = openai_sdk
        super().__init__(checked, root, openai_sdk.TRANSLATIONS, declarations)

    def _open_chat(self, http: httpx.AsyncClient) -> Chat:
        return self._sdk.OpenAIChat(http, self._config.api_key, self._base_url)

    def _build_request(self, call: ModelCall, answering: str) -> dict[str, Any]:
        names = WireNames.of(OPENAI_NAME, call.tools, call.messages)
        return {
            "model": self.model,
            "messages": build_messages(call.messages, answering, call.system_instruction, names),
            **build_settings(answering, call.temperature, call.max_tokens, self._config.thinking),
            **({"tools": build_tools(call.tools, names)} if call.tools else {}),
        }

    def _require_call(self, request: dict[str, Any]) -> dict[str, Any]:
        # A string, never an object that names a function: LM Studio and others accept only strings.
        return {**request, "tool_choice": "required"}

    def _parse(self, body: str, tools: list[ToolDeclaration]) -> LLMResponse:
        return parse_response(body, self.model, tools, WireNames.of(OPENAI_NAME, tools))

    def _probe_request(self) -> tuple[str, dict[str, str], str]:
        not_found = "the model's endpoint answers, but not as an OpenAI-compatible one: check the base URL"
        return f"{self._base_url}/models", {"authorization": f"Bearer {self._config.api_key}"}, not_found


def _root(base_url: str) -> str:
    """Return `base_url` without `/chat/completions`, which the SDK appends and which is often copied along."""
    return base_url.rstrip("/").removesuffix("/chat/completions").rstrip("/")
