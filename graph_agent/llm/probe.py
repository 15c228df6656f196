"""Whether an endpoint answers: one small request, for `graph-agent doctor`."""

from __future__ import annotations

import asyncio

from graph_agent.llm.connection import SHARED, meaning, open_client
from graph_agent.llm.failures import RefusedError

PROBE_SECONDS = 0.8

_OTHER_METHODS = frozenset({405, 501})
"""A server of one's own may have nothing but the method that generates."""


async def probe(url: str, headers: dict[str, str], missing: str) -> str | None:
    """None if the endpoint at `url` answers a GET, else one sentence that says what is wrong, without the key.

    `missing` is the sentence for 404. An endpoint that answers that it is not asked this way answers.
    """
    try:
        async with asyncio.timeout(PROBE_SECONDS), open_client(headers=headers) as client:
            await client.get(url)
    except Exception as exc:
        if isinstance(exc, RefusedError) and exc.status in _OTHER_METHODS:
            return None
        if isinstance(exc, RefusedError) and exc.status == 404:
            return missing
        return meaning(exc, SHARED, "").error.message
    return None
