"""A subclass of `ChatGoogleGenerativeAI` that sends and returns JSON without losing fields.

Imported late, because loading Google's SDK takes seconds. Configuration, tracing and generation settings are the library's.
Contents and tools are sent as we build them: the library's own conversion drops the ids of calls and results, rewrites
schemas, and costs more than the call itself.
"""

from __future__ import annotations

from typing import Any, Self

import httpx
from google.genai import Client
from google.genai.types import AutomaticFunctionCallingConfig, GenerateContentConfig, HttpOptions
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_google_genai import ChatGoogleGenerativeAI
from pydantic import Field, SecretStr, model_validator

from graph_agent.llm.http_client import tls_context

_NO_AUTOMATIC_CALLS = AutomaticFunctionCallingConfig(disable=True)
"""The SDK would otherwise call Python functions by itself. Only the graph executes calls."""

_SHORTEST_SERVER_DEADLINE = 10
"""Seconds. The SDK sends its own timeout to the server, which answers 400 to a shorter one."""


class _SharedDict(dict[str, Any]):
    """A request body that deep copies share: the SDK copies its options several times, but only reads this."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class GeminiChat(ChatGoogleGenerativeAI):
    """One model in one event loop, on our HTTP client."""

    http: Any = Field(exclude=True)

    @model_validator(mode="after")
    def validate_environment(self) -> Self:
        """Build the SDK's client around ours. This replaces the library's validator of the same name.

        The library would read `GOOGLE_API_KEY` and use aiohttp if that is installed, with other exceptions and no limits.
        """
        key = self.google_api_key
        self.client = Client(
            api_key=key.get_secret_value() if isinstance(key, SecretStr) else None,
            vertexai=False,
            http_options=HttpOptions(
                base_url=self.base_url if isinstance(self.base_url, str) else None,
                httpx_async_client=self.http,
                # The SDK opens a synchronous and an aiohttp client as well; without these each would load the certificates.
                client_args={"verify": tls_context()},
                async_client_args={"verify": tls_context(), "ssl": tls_context()},
            ),
        )
        return self

    def _prepare_request(
        self, messages: list[BaseMessage], *, fields: dict[str, Any] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        request = super()._prepare_request(messages, **kwargs)
        config = request["config"]
        assert isinstance(config, GenerateContentConfig)
        config.candidate_count = None  # deprecated like the sampling parameters, and 1 is the default anyway
        config.automatic_function_calling = _NO_AUTOMATIC_CALLS
        # By default the SDK continues a response that reached the limit of one request, and merges only the parsed parts.
        config.automatic_continuation = False
        config.should_return_http_response = True  # the raw body: the SDK's models drop parts that they do not know
        assert config.http_options is not None
        seconds = -(-(config.http_options.timeout or 0) // 1000)
        config.http_options.headers = {"X-Server-Timeout": str(max(_SHORTEST_SERVER_DEADLINE, seconds))}
        config.http_options.extra_body = _SharedDict(fields or {})
        return request

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,  # noqa: ARG002 (the library passes it by this name)
        **kwargs: Any,
    ) -> ChatResult:
        assert self.client is not None
        response = await self.client.aio.models.generate_content(**self._prepare_request(messages, stop=stop, **kwargs))
        raw = response.sdk_http_response
        message = AIMessage(content="", response_metadata={"body": raw.body if raw else ""})
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def send(self, request: dict[str, Any], seconds: float) -> str:
        """Send `fields` of the request unchanged, with its `system_instruction` and generation `settings`."""
        instruction = request["system_instruction"]
        opening: list[BaseMessage] = [SystemMessage(instruction)] if instruction else []
        # The library requires a message. On the wire `contents` in `fields` replaces it.
        sent = [*opening, HumanMessage("-")]
        message = await self.ainvoke(sent, fields=request["fields"], **request["settings"], timeout=seconds)
        return str(message.response_metadata.get("body") or "")


def open_chat(http: httpx.AsyncClient, *, api_key: str, model: str, base_url: str) -> GeminiChat:
    """Return a `GeminiChat` that does not retry by itself and has no cache."""
    return GeminiChat(  # type: ignore[call-arg]  # the library accepts its fields by name and by alias; a checker knows the alias
        http=http,
        api_key=SecretStr(api_key),
        model=model,
        base_url=base_url,
        vertexai=False,
        max_retries=1,  # this counts attempts; the default of 6 can take half a minute for a 503
        cache=False,
        temperature=None,  # a call sends its own if the model takes one; the library's default is 0.7
    )
