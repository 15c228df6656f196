"""A decision as the page copies it: the test case that the server writes."""

from __future__ import annotations

import asyncio

import httpx

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.settings import Settings, read_settings


def written_case(decision_id: str, settings: Settings | None = None) -> str:
    """Return the case of a decision as a server with these settings writes it; by default with those of the environment."""

    async def read() -> str:
        async with open_runtime(settings or read_settings(), model="embedded") as runtime:
            transport = httpx.ASGITransport(create_app(runtime))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
                answer = await client.get(f"/api/decisions/{decision_id}/fixture")
        assert answer.status_code == 200, answer.text
        return answer.text

    return asyncio.run(read())
