"""The adapter for servers with OpenAI's chat completions protocol.

It posts JSON by the HTTP client itself: the protocol is one request, and a library's models of it would drop the fields that
they do not know, such as `extra_content` with its signatures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_agent.llm.config import LLMConfig, check_base_url, make_config
from graph_agent.llm.openai_wire import build_messages, build_settings, build_tools, parse_response
from graph_agent.llm.provider_adapter import Post, ProviderAdapter
from graph_agent.llm.wire_names import OPENAI_NAME, WireNames
from graph_agent.models.llm import LLMRequest, LLMResponse, ToolDeclaration

if TYPE_CHECKING:
    import httpx

GEMINI_ENDPOINT = "https://generativelanguage.googleapis.com/v1beta/openai/"
_PATH = "/chat/completions"

NO_KEY = "none"
"""The key that is sent to a self-hosted server that needs none: some refuse a request without one."""


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
    ) -> None:
        """Raises `ConfigurationError` for an invalid key, model name or URL."""
        key = api_key if api_key.strip() or not base_url else NO_KEY
        super().__init__(make_config(key, model, config), check_base_url(base_url or GEMINI_ENDPOINT, _PATH), declarations)
        self._headers = {"authorization": f"Bearer {self._config.api_key}"}

    def _open_post(self, http: httpx.AsyncClient) -> Post:
        async def post(body: dict[str, Any], seconds: float) -> str:
            return (await http.post(self._base_url + _PATH, json=body, headers=self._headers, timeout=seconds)).text

        return post

    def _build_request(self, request: LLMRequest, answering: str, *, require_call: bool) -> dict[str, Any]:
        names = WireNames.of(OPENAI_NAME, request.tools, request.messages)
        return {
            "model": self.model,
            "messages": build_messages(request.messages, answering, request.system_instruction, names),
            **build_settings(answering, request, self._config.thinking),
            **({"tools": build_tools(request.tools, names)} if request.tools else {}),
            # A string, never an object that names a function: LM Studio and others accept only strings.
            **({"tool_choice": "required"} if require_call else {}),
        }

    def _parse(self, text: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
        return parse_response(text, self.model, tools, WireNames.of(OPENAI_NAME, tools))

    def _models_request(self) -> tuple[str, dict[str, str]]:
        return f"{self._base_url}/models", self._headers
