"""The adapter for Gemini, through `langchain-google-genai`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_agent.llm.config import LLMConfig, check_base_url, make_config
from graph_agent.llm.families import DEFAULT_MODEL, family_of
from graph_agent.llm.gemini_wire import REQUIRED_CALL, build_contents, build_settings, build_tools, parse_response
from graph_agent.llm.provider_adapter import Post, ProviderAdapter
from graph_agent.llm.wire_names import GEMINI_NAME, WireNames
from graph_agent.models.llm import LLMRequest, LLMResponse, ToolDeclaration

if TYPE_CHECKING:
    import httpx

ENDPOINT = "https://generativelanguage.googleapis.com"
_VERSION = "/v1beta"


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
    ) -> None:
        """Raises `ConfigurationError` for an invalid key, model name or URL."""
        checked, root = make_config(api_key, model, config), check_base_url(base_url or ENDPOINT, _VERSION, "/models")
        # The SDK takes seconds to load: not at import, for programs that use another model, and not in the first turn.
        from graph_agent.llm import gemini_sdk

        self._sdk = gemini_sdk
        super().__init__(checked, root, declarations)

    def _open_post(self, http: httpx.AsyncClient) -> Post:
        return self._sdk.open_chat(http, api_key=self._config.api_key, model=self.model, base_url=self._base_url).send

    def _build_request(self, request: LLMRequest, answering: str, *, require_call: bool) -> dict[str, Any]:
        family = family_of(answering)
        names = WireNames.of(GEMINI_NAME, request.tools, request.messages)
        return {
            "fields": {
                "contents": build_contents(request.messages, family, names),
                **({"tools": build_tools(request.tools, names)} if request.tools else {}),
                **({"toolConfig": REQUIRED_CALL} if require_call else {}),
            },
            "system_instruction": request.system_instruction,
            "settings": build_settings(family, request, self._config.thinking),
        }

    def _parse(self, text: str, tools: Sequence[ToolDeclaration]) -> LLMResponse:
        return parse_response(text, self.model, tools, WireNames.of(GEMINI_NAME, tools))

    def _models_request(self) -> tuple[str, dict[str, str]]:
        return f"{self._base_url}{_VERSION}/models", {"x-goog-api-key": self._config.api_key}
