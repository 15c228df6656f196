"""`python -m tests.page.openapi`: print the OpenAPI document, from which the types of the page are generated."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from graph_agent.api.app import create_app
from graph_agent.api.launch_session import LaunchSession
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.stores import temporary_settings
from graph_agent.settings import Settings


async def openapi_document() -> dict[str, Any]:
    """Return the document of a server with the default settings, which asks for the launch token."""
    async with open_runtime(temporary_settings(Settings()), model="embedded") as runtime:
        return create_app(runtime, launch=LaunchSession("-" * 32)).openapi()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(openapi_document()), indent=2))
