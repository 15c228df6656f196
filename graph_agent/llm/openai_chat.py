"""The `openai` SDK on a client of ours. Imported late: loading it takes a while."""

from __future__ import annotations

from typing import Any

import httpx
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI

from graph_agent.llm.connection import SHARED, Table
from graph_agent.llm.failures import RefusedError, refused, timed_out, unreachable

TRANSLATIONS: Table = (
    ((APITimeoutError,), lambda _exc, _model: timed_out()),
    ((APIConnectionError,), lambda _exc, _model: unreachable()),
    ((APIStatusError,), lambda exc, model: refused(RefusedError(exc.status_code), model)),
    *SHARED,
)


class OpenAIChat:
    """The SDK's client for one event loop. It never retries by itself."""

    def __init__(self, http: httpx.AsyncClient, api_key: str, base_url: str) -> None:
        client: Any = http  # its types know httpx2 only; the classes of httpx are taken as well
        self._sdk = AsyncOpenAI(api_key=api_key, base_url=base_url, http_client=client, max_retries=0)

    async def body(self, request: dict[str, Any], seconds: float) -> str:
        """The text of the answer to one request: the SDK's models would drop what they do not know."""
        response = await self._sdk.post("/chat/completions", cast_to=httpx.Response, body=request, options={"timeout": seconds})
        return response.text

    async def aclose(self) -> None:
        await self._sdk.close()
