"""Gemini through `langchain-google-genai`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from graph_agent.llm.attempts import attempts, place
from graph_agent.llm.config import LLMConfig, configured, endpoint
from graph_agent.llm.declarations import TASK_TOOLS, select
from graph_agent.llm.failures import missing_model
from graph_agent.llm.families import DEFAULT_MODEL, family_of, output_tokens, plain_name, thinking_of
from graph_agent.llm.gemini_wire import contents_of, response_of, tools_of
from graph_agent.llm.lines import PerLoop
from graph_agent.llm.turnstile import Turnstile
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolDeclaration

if TYPE_CHECKING:
    import httpx

    from graph_agent.llm.gemini_chat import GeminiChat

ENDPOINT = "https://generativelanguage.googleapis.com"
_VERSION = "/v1beta"


class GeminiAdapter:
    """An `LLMAdapter` for Gemini's `generateContent`. Never refuses a model's name.

    `base_url` replaces Google's endpoint; `/v1beta/models/...` is appended to it, or what is missing of that. `config` sets
    the limits; its key and model give way to the arguments. Construction loads the SDK, which takes seconds once in a process.
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
        """Raises `ConfigurationError` for a key, name or URL that cannot be one."""
        self._config = configured(api_key, model, config)
        self._family = family_of(model)
        self._base_url = _root(endpoint(base_url)) if base_url else None
        self._declarations = TASK_TOOLS if declarations is None else tuple(declarations)
        from graph_agent.llm import connection, gemini_chat  # seconds of loading, paid here and not in a turn

        connection.leave_alone("langchain-google-genai")
        self._connection, self._sdk = connection, gemini_chat
        self._lines: PerLoop[_Line] = PerLoop(self._open_line, _Line.aclose)

    @property
    def model(self) -> str:
        return self._config.model

    def get_tool_declarations(self, tools: list[str]) -> list[ToolDeclaration]:
        return select(self._declarations, tools)

    async def generate(
        self,
        messages: list[LLMMessage],
        tools: list[ToolDeclaration],
        temperature: float = 0.0,
        max_tokens: int = 1024,
        *,
        system_instruction: str | None = None,
    ) -> LLMResponse:
        line = await self._lines.get()
        settings: dict[str, Any] = {"max_output_tokens": output_tokens(self._family, self._config.thinking, max_tokens)}
        if self._family.takes_temperature:
            settings["temperature"] = temperature

        async with place(line.slots):
            await line.turnstile.enter()
            contents, declared = contents_of(messages, self._family), tools_of(tools)

            async def attempt(seconds: float) -> str:
                return await line.chat.body(contents, declared, system_instruction, {**settings, "timeout": seconds})

            body = await attempts(
                attempt,
                lambda exc: self._connection.meaning(exc, self._sdk.TRANSLATIONS, self.model),
                limit=self._config.timeout_seconds,
                retries=self._config.max_retries,
            )
        return response_of(body, self.model, tools)

    async def check(self) -> str | None:
        """None if the endpoint answers and has the model, else one sentence that says what is wrong. Within a second."""
        return await check(self._config.api_key, self.model, base_url=self._base_url)

    async def aclose(self) -> None:
        """Close the connections. A later `generate` opens new ones."""
        await self._lines.aclose()

    def _open_line(self) -> _Line:
        turnstile = Turnstile()
        http = self._connection.open_client(turnstile)
        thinking = thinking_of(self._family, self._config.thinking)
        chosen = {"thinking_level": thinking.level, "thinking_budget": thinking.budget}
        chat = self._sdk.open_chat(
            http,
            api_key=self._config.api_key,
            model=self.model,
            base_url=self._base_url,
            settings={name: value for name, value in chosen.items() if value is not None},
        )
        return _Line(http, chat, turnstile, asyncio.Semaphore(self._connection.MAX_CONNECTIONS))


@dataclass(frozen=True)
class _Line:
    """What one event loop has: a client, the SDK on top of it, and places for calls in flight."""

    http: httpx.AsyncClient
    chat: GeminiChat
    turnstile: Turnstile
    slots: asyncio.Semaphore

    async def aclose(self) -> None:
        await self.http.aclose()


async def check(api_key: str, model: str = DEFAULT_MODEL, *, base_url: str | None = None) -> str | None:
    """What `GeminiAdapter.check` says, without loading the SDK."""
    from graph_agent.llm.probe import probe

    url = f"{_root(base_url or ENDPOINT)}{_VERSION}/models/{quote(plain_name(model), safe='')}"
    return await probe(url, {"x-goog-api-key": api_key}, missing_model(model))


def _root(base_url: str) -> str:
    """`base_url` without the version, which is part of the address in Google's own examples and is appended by the SDK."""
    return base_url.strip().rstrip("/").removesuffix("/models").rstrip("/").removesuffix(_VERSION)
