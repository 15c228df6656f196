"""The adapter for servers with OpenAI's chat completions protocol, through the `openai` SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from graph_agent.llm.config import LLMConfig, check_base_url, make_config
from graph_agent.llm.families import answering_model, routed_model
from graph_agent.llm.loop_clients import LoopClients
from graph_agent.llm.loop_throttle import LoopThrottle
from graph_agent.llm.openai_wire import build_messages, build_settings, build_tools, parse_response
from graph_agent.llm.retries import call_with_retries, connection_slot
from graph_agent.llm.tool_choice import RequiredCalls
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolChoice, ToolDeclaration, select_declarations
from graph_agent.task_server.declarations import TASK_TOOLS

if TYPE_CHECKING:
    from graph_agent.llm.openai_sdk import OpenAIChat

GEMINI_ENDPOINT = "https://generativelanguage.googleapis.com/v1beta/openai/"

NO_KEY = "none"
"""The key that is sent to a self-hosted server that needs none: the SDK refuses an empty one."""


class OpenAICompatibleAdapter:
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
        self._config = make_config(_key(api_key, base_url), model, config)
        self._base_url = _root(check_base_url(base_url)) if base_url else GEMINI_ENDPOINT
        self._answering: str | None = None
        self._declarations = TASK_TOOLS if declarations is None else tuple(declarations)
        # The SDK takes a while to load: not at import, for programs that use another model, and not in the first turn.
        from graph_agent.llm import http_client, openai_sdk

        self._http_client, self._sdk = http_client, openai_sdk
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
        async with connection_slot(client.slots):
            await client.throttle.wait()
            # Google routes retired models to newer ones without an error: the parameters are those of the model that answers.
            answering = self._answering or answering_model(self.model, datetime.now(UTC).date())
            request: dict[str, Any] = {
                "model": self.model,
                "messages": build_messages(messages, answering, system_instruction),
                **build_settings(answering, temperature, max_tokens, self._config.thinking),
            }
            if tools:
                request["tools"] = build_tools(tools)

            async def send(require_call: bool) -> str:
                # A string, never an object that names a function: LM Studio and others accept only strings.
                sent = {**request, "tool_choice": "required"} if require_call else request
                return await call_with_retries(
                    lambda seconds: client.chat.send(sent, seconds),
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
        """Return None if the endpoint answers, else one sentence that says what is wrong. Takes at most a second."""
        return await check(self._config.api_key, base_url=self._base_url)

    async def aclose(self) -> None:
        """Close the connections. A later `generate` opens new ones."""
        await self._clients.aclose()

    def _open_client(self) -> _LoopClient:
        throttle = LoopThrottle()
        http = self._http_client.open_client(throttle)
        chat = self._sdk.OpenAIChat(http, self._config.api_key, self._base_url)
        return _LoopClient(chat, throttle, asyncio.Semaphore(self._http_client.MAX_CONNECTIONS))


@dataclass(frozen=True)
class _LoopClient:
    """The client of one event loop: the SDK on its own HTTP client, the throttle, and slots for calls in flight."""

    chat: OpenAIChat
    throttle: LoopThrottle
    slots: asyncio.Semaphore

    async def aclose(self) -> None:
        await self.chat.aclose()


def _key(api_key: str, base_url: str | None) -> str:
    return api_key if api_key.strip() or not base_url else NO_KEY


def _root(base_url: str) -> str:
    """Return `base_url` without `/chat/completions`, which the SDK appends and which is often copied along."""
    return base_url.strip().rstrip("/").removesuffix("/chat/completions").rstrip("/")


async def check(api_key: str, *, base_url: str | None = None) -> str | None:
    """Return the same as `OpenAICompatibleAdapter.check`, without loading the SDK."""
    # httpx takes a while to load, and most commands do not need it.
    from graph_agent.llm.probe import probe

    url = f"{_root(base_url or GEMINI_ENDPOINT)}/models"
    headers = {"authorization": f"Bearer {_key(api_key, base_url)}"}
    return await probe(url, headers, "the model's endpoint answers, but not as an OpenAI-compatible one: check the base URL")
