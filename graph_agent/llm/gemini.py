"""The adapter for Gemini, through `langchain-google-genai`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from graph_agent.llm.config import LLMConfig, check_base_url, make_config
from graph_agent.llm.families import (
    DEFAULT_MODEL,
    answering_model,
    family_of,
    output_tokens,
    plain_name,
    routed_model,
    thinking_of,
)
from graph_agent.llm.gemini_wire import REQUIRED_CALL, build_contents, build_tools, parse_response
from graph_agent.llm.loop_clients import LoopClients
from graph_agent.llm.loop_throttle import LoopThrottle
from graph_agent.llm.provider_errors import missing_model_message
from graph_agent.llm.retries import call_with_retries, connection_slot
from graph_agent.llm.tool_choice import RequiredCalls
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolChoice, ToolDeclaration, select_declarations
from graph_agent.task_server.declarations import TASK_TOOLS

if TYPE_CHECKING:
    import httpx

    from graph_agent.llm.gemini_sdk import GeminiChat

ENDPOINT = "https://generativelanguage.googleapis.com"
_VERSION = "/v1beta"


class GeminiAdapter:
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
        self._config = make_config(api_key, model, config)
        self._answering: str | None = None
        self._base_url = _root(check_base_url(base_url)) if base_url else None
        self._declarations = TASK_TOOLS if declarations is None else tuple(declarations)
        # The SDK takes seconds to load: not at import, for programs that use another model, and not in the first turn.
        from graph_agent.llm import gemini_sdk, http_client

        self._http_client, self._sdk = http_client, gemini_sdk
        self.required_calls = RequiredCalls(self.model)
        self._clients: LoopClients[_LoopClient] = LoopClients(self._open_client, _LoopClient.aclose)

    @property
    def model(self) -> str:
        return self._config.model

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return select_declarations(self._declarations, tools)

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,
        max_tokens: int = 1024,
        *,
        system_instruction: str | None = None,
        tool_choice: ToolChoice = "auto",
    ) -> LLMResponse:
        client = await self._clients.get()
        # Google routes retired models to newer ones without an error: the parameters are those of the model that answers.
        family = family_of(self._answering or answering_model(self.model, datetime.now(UTC).date()))
        thinking = thinking_of(family, self._config.thinking)
        settings: dict[str, Any] = {"max_output_tokens": output_tokens(family, self._config.thinking, max_tokens)}
        if thinking.level is not None:
            settings["thinking_level"] = thinking.level
        if thinking.budget is not None:
            settings["thinking_budget"] = thinking.budget
        if family.takes_temperature:
            settings["temperature"] = temperature

        async with connection_slot(client.slots):
            await client.throttle.wait()
            fields: dict[str, Any] = {"contents": build_contents(messages, family)}
            if tools:
                fields["tools"] = build_tools(tools)

            async def send(require_call: bool) -> str:
                sent = {**fields, "toolConfig": REQUIRED_CALL} if require_call else fields
                return await call_with_retries(
                    lambda seconds: client.chat.send(sent, system_instruction, {**settings, "timeout": seconds}),
                    lambda exc: self._http_client.translate_error(exc, self._sdk.TRANSLATIONS, self.model),
                    limit=self._config.timeout_seconds,
                    retries=self._config.max_retries,
                )

            response = await self.required_calls.respond(
                tool_choice, tools, send, lambda body: parse_response(body, self.model, tools)
            )
        if response.response_model is not None:
            self._answering = routed_model(self.model, response.response_model)
        return response

    async def check(self) -> str | None:
        """Return None if the endpoint answers and has the model, else one sentence that says what is wrong.

        Takes at most a second.
        """
        return await check(self._config.api_key, self.model, base_url=self._base_url)

    async def aclose(self) -> None:
        """Close the connections. A later `generate` opens new ones."""
        await self._clients.aclose()

    def _open_client(self) -> _LoopClient:
        throttle = LoopThrottle()
        http = self._http_client.open_client(throttle)
        chat = self._sdk.open_chat(http, api_key=self._config.api_key, model=self.model, base_url=self._base_url)
        return _LoopClient(http, chat, throttle, asyncio.Semaphore(self._http_client.MAX_CONNECTIONS))


@dataclass(frozen=True)
class _LoopClient:
    """The client of one event loop: HTTP, the SDK on top of it, the throttle, and slots for calls in flight."""

    http: httpx.AsyncClient
    chat: GeminiChat
    throttle: LoopThrottle
    slots: asyncio.Semaphore

    async def aclose(self) -> None:
        await self.http.aclose()


async def check(api_key: str, model: str = DEFAULT_MODEL, *, base_url: str | None = None) -> str | None:
    """Return the same as `GeminiAdapter.check`, without loading the SDK."""
    # httpx takes a while to load, and most commands do not need it.
    from graph_agent.llm.probe import probe

    url = f"{_root(base_url or ENDPOINT)}{_VERSION}/models/{quote(plain_name(model), safe='')}"
    return await probe(url, {"x-goog-api-key": api_key}, missing_model_message(model))


def _root(base_url: str) -> str:
    """Return `base_url` without the version, which Google's examples include and the SDK appends."""
    return base_url.strip().rstrip("/").removesuffix("/models").rstrip("/").removesuffix(_VERSION)
