"""Any server that speaks OpenAI's chat completions, through the `openai` SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graph_agent.llm.attempts import attempts, place
from graph_agent.llm.config import LLMConfig, configured, endpoint
from graph_agent.llm.declarations import TASK_TOOLS, select
from graph_agent.llm.lines import PerLoop
from graph_agent.llm.openai_wire import messages_of, response_of, settings_of, tools_of
from graph_agent.llm.turnstile import Turnstile
from graph_agent.models.llm import LLMMessage, LLMResponse, ToolDeclaration

if TYPE_CHECKING:
    from graph_agent.llm.openai_chat import OpenAIChat

GEMINI_ENDPOINT = "https://generativelanguage.googleapis.com/v1beta/openai/"

NO_KEY = "none"
"""Sent to a server of one's own that wants no key."""


class OpenAICompatibleAdapter:
    """An `LLMAdapter` for Gemini's compatible endpoint, or for the server at `base_url`: Ollama, vLLM, llama.cpp, OpenAI.

    `config` sets the limits; its key and model give way to the arguments. The key may be empty where `base_url` is given.
    Construction loads the SDK, which takes a second or two once in a process.
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
        """Raises `ConfigurationError` for a key, name or URL that cannot be one."""
        self._config = configured(_key(api_key, base_url), model, config)
        self._base_url = _root(endpoint(base_url)) if base_url else GEMINI_ENDPOINT
        self._declarations = TASK_TOOLS if declarations is None else tuple(declarations)
        from graph_agent.llm import connection, openai_chat  # loading takes a while: paid here and not in a turn

        connection.leave_alone("openai")
        self._connection, self._sdk = connection, openai_chat
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
        async with place(line.slots):
            await line.turnstile.enter()
            request: dict[str, Any] = {
                "model": self.model,
                "messages": messages_of(messages, self.model, system_instruction),
                **settings_of(self.model, temperature, max_tokens, self._config.thinking),
            }
            if tools:
                request["tools"] = tools_of(tools)

            async def attempt(seconds: float) -> str:
                return await line.chat.body(request, seconds)

            body = await attempts(
                attempt,
                lambda exc: self._connection.meaning(exc, self._sdk.TRANSLATIONS, self.model),
                limit=self._config.timeout_seconds,
                retries=self._config.max_retries,
            )
        return response_of(body, self.model, tools)

    async def check(self) -> str | None:
        """None if the endpoint answers, else one sentence that says what is wrong. Within a second."""
        return await check(self._config.api_key, base_url=self._base_url)

    async def aclose(self) -> None:
        """Close the connections. A later `generate` opens new ones."""
        await self._lines.aclose()

    def _open_line(self) -> _Line:
        turnstile = Turnstile()
        http = self._connection.open_client(turnstile)
        chat = self._sdk.OpenAIChat(http, self._config.api_key, self._base_url)
        return _Line(chat, turnstile, asyncio.Semaphore(self._connection.MAX_CONNECTIONS))


@dataclass(frozen=True)
class _Line:
    """What one event loop has: the SDK on a client of its own, and places for calls in flight."""

    chat: OpenAIChat
    turnstile: Turnstile
    slots: asyncio.Semaphore

    async def aclose(self) -> None:
        await self.chat.aclose()


def _key(api_key: str, base_url: str | None) -> str:
    return api_key if api_key.strip() or not base_url else NO_KEY


def _root(base_url: str) -> str:
    """`base_url` without the method, which the SDK appends and people copy along."""
    return base_url.strip().rstrip("/").removesuffix("/chat/completions").rstrip("/")


async def check(api_key: str, *, base_url: str | None = None) -> str | None:
    """What `OpenAICompatibleAdapter.check` says, without loading the SDK."""
    from graph_agent.llm.probe import probe

    url = f"{_root(base_url or GEMINI_ENDPOINT)}/models"
    headers = {"authorization": f"Bearer {_key(api_key, base_url)}"}
    return await probe(url, headers, "the model's endpoint answers, but not as an OpenAI-compatible one: check the base URL")
