"""`ChatGoogleGenerativeAI`, completed where it loses what Gemini needs back.

Imported late: loading Google's SDK takes seconds. The class keeps configuration, tracing and generation settings; contents and
tools go to the wire as they are given, because its own conversion drops ids, rewrites schemas and costs more than the call.
"""

from __future__ import annotations

from typing import Any, Self

import httpx
from google.genai import Client
from google.genai.errors import APIError
from google.genai.types import AutomaticFunctionCallingConfig, GenerateContentConfig, HttpOptions
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_google_genai import ChatGoogleGenerativeAI
from pydantic import Field, SecretStr, model_validator

from graph_agent.llm.connection import SHARED, Table, trusted
from graph_agent.llm.failures import RefusedError, refused

TRANSLATIONS: Table = (
    ((APIError,), lambda exc, model: refused(RefusedError(exc.code or 0), model)),
    *SHARED,
)

_OFF = AutomaticFunctionCallingConfig(disable=True)

_SHORTEST_SERVER_DEADLINE = 10
"""Seconds. Gemini answers 400 to a shorter one, and the SDK sends its own timeout along as one."""


class _AsItIs(dict[str, Any]):
    """A request body that the SDK's deep copies leave alone: it only reads it, and copying costs more than sending."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class GeminiChat(ChatGoogleGenerativeAI):
    """One model in one event loop, on a client of ours."""

    http: Any = Field(exclude=True)

    @model_validator(mode="after")
    def validate_environment(self) -> Self:
        """Build the SDK's client around ours, whatever HTTP libraries are installed."""
        key = self.google_api_key
        self.client = Client(
            api_key=key.get_secret_value() if isinstance(key, SecretStr) else None,
            vertexai=False,
            http_options=HttpOptions(
                base_url=self.base_url if isinstance(self.base_url, str) else None,
                httpx_async_client=self.http,
                client_args={"verify": trusted()},
                async_client_args={"verify": trusted(), "ssl": trusted()},
            ),
        )
        return self

    def _prepare_request(
        self,
        messages: list[BaseMessage],
        *,
        contents: list[dict[str, Any]] | None = None,
        tools: Any = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        request = super()._prepare_request(messages, **kwargs)
        config = request["config"]
        assert isinstance(config, GenerateContentConfig)
        config.candidate_count = None  # deprecated like the sampling parameters, and one is the default
        config.automatic_function_calling = _OFF
        config.should_return_http_response = True  # the text as it came: the SDK's models drop parts they do not know
        assert config.http_options is not None
        config.http_options.headers = {"X-Server-Timeout": str(_server_deadline(config.http_options.timeout))}
        config.http_options.extra_body = _AsItIs(contents=contents, **({"tools": tools} if tools else {}))
        return request

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ARG002 (the library passes it by this name)
        **kwargs: Any,
    ) -> ChatResult:
        assert self.client is not None
        request = self._prepare_request(messages, stop=stop, **kwargs)
        response = await self.client.aio.models.generate_content(**request)
        raw = response.sdk_http_response
        message = AIMessage(content="", response_metadata={"body": raw.body if raw else ""})
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def body(
        self,
        contents: list[dict[str, Any]],
        tools: list[dict[str, Any]],
        system_instruction: str | None,
        settings: dict[str, Any],
    ) -> str:
        """The text of the answer to one request. `settings` are generation settings and `timeout` in seconds."""
        opening: list[BaseMessage] = [SystemMessage(system_instruction)] if system_instruction else []
        # The message only satisfies the library's check that there is one: `contents` takes its place on the wire.
        message = await self.ainvoke([*opening, HumanMessage("-")], contents=contents, tools=tools, **settings)
        return str(message.response_metadata.get("body") or "")


def _server_deadline(milliseconds: int | None) -> int:
    return max(_SHORTEST_SERVER_DEADLINE, -(-(milliseconds or 0) // 1000))


def open_chat(
    http: httpx.AsyncClient, *, api_key: str, model: str, base_url: str | None, settings: dict[str, Any]
) -> GeminiChat:
    """A `GeminiChat` that never retries by itself and keeps no cache."""
    return GeminiChat(
        http=http,
        api_key=SecretStr(api_key),
        model=model,
        base_url=base_url,
        vertexai=False,
        max_retries=1,
        cache=False,
        temperature=None,  # a call brings its own where the model takes one; the library's default is 0.7
        **settings,
    )
