"""The `openai` SDK on our HTTP client. Imported late, because loading the SDK takes about a second."""

from __future__ import annotations

from typing import Any

import httpx
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI

from graph_agent.llm.http_client import SHARED_TRANSLATIONS, ErrorTable
from graph_agent.llm.provider_errors import StatusError, failure_for_status, timeout_failure, unreachable_failure

TRANSLATIONS: ErrorTable = (
    ((APITimeoutError,), lambda _exc, _model: timeout_failure()),
    ((APIConnectionError,), lambda _exc, _model: unreachable_failure()),
    ((APIStatusError,), lambda exc, model: failure_for_status(StatusError(exc.status_code), model)),
    *SHARED_TRANSLATIONS,
)


class OpenAIChat:
    """The SDK's client for one event loop."""

    def __init__(self, http: httpx.AsyncClient, api_key: str, base_url: str) -> None:
        client: Any = http  # the SDK is typed for httpx2 only, but accepts a client of httpx as well
        # By default the SDK retries timeouts and 409 by itself; our retries respect the turn's deadline.
        self._sdk = AsyncOpenAI(api_key=api_key, base_url=base_url, http_client=client, max_retries=0)

    async def send(self, request: dict[str, Any], seconds: float) -> str:
        """Send one request and return the body of the response as text.

        The SDK's own models would drop fields that they do not know, such as `extra_content` with its signatures.
        """
        response = await self._sdk.post("/chat/completions", cast_to=httpx.Response, body=request, options={"timeout": seconds})
        return response.text
