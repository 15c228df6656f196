"""A small request that shows if an endpoint can be reached, for `graph-agent doctor`."""

from __future__ import annotations

import asyncio

from graph_agent.llm.http_client import SHARED_TRANSLATIONS, open_client, translate_error
from graph_agent.llm.provider_errors import StatusError

PROBE_SECONDS = 0.8

_OTHER_METHODS = frozenset({405, 501})
"""A self-hosted server may support POST only. That it says so shows that it can be reached."""


async def probe(url: str, headers: dict[str, str], not_found: str) -> str | None:
    """Send a GET to `url`; return None if it is answered, else one sentence that says what is wrong, without the key.

    `not_found` is the sentence for the status 404.
    """
    try:
        async with asyncio.timeout(PROBE_SECONDS), open_client(headers=headers) as client:
            await client.get(url)
    except Exception as exc:
        if isinstance(exc, StatusError) and exc.status in _OTHER_METHODS:
            return None
        if isinstance(exc, StatusError) and exc.status == 404:
            return not_found
        return translate_error(exc, SHARED_TRANSLATIONS, "").error.message
    return None
