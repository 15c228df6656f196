"""`graph-agent gateway`: the tools of MCP servers for any MCP client."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.definitions import pin_tools
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.toolbox import pins_of
from graph_agent.bootstrap.tools_app import mcp_app
from graph_agent.cli.files import with_files
from graph_agent.cli.mcp_serving import Http, Url, serve_mcp
from graph_agent.cli.running import NoToken, User, option, print_stderr
from graph_agent.gateway.server import Gateway
from graph_agent.settings import Settings


@with_files()
def gateway(
    *,
    settings: Settings,
    user: User = LOCAL_USER,
    http: Http = None,
    url: Url = None,
    page: Annotated[
        str, option("--page", "URL", "The address of the page, where a client that cannot ask sends its user.")
    ] = "http://127.0.0.1:8000",
    no_token: NoToken = False,
) -> None:
    """Serve the tools of MCP servers to any MCP client, judged, confirmed and recorded.

    Clients see the tools that the constitution grants. Each call is a decision without a model, in a conversation of its
    client. The definitions of the tools are pinned at the first start, in a lock file beside the constitution; a tool that
    differs from it is refused until `tools pin` is run again.
    """

    def app(opened: Gateway, address: str, token: str | None) -> Any:
        # With sessions, and with streams on which the server can ask while a call runs.
        options = {"stateless_http": False, "json_response": False}
        return mcp_app(settings, opened.server, address, token, reads=opened.reads, **options)

    user_id = None if http is not None and settings.authenticates else user
    opening = _open_gateway(settings, user_id, page)
    serve_mcp(settings, "gateway", opening, Gateway.run_stdio, app, user=user, http=http, url=url, no_token=no_token)


@asynccontextmanager
async def _open_gateway(settings: Settings, user_id: str | None, page: str) -> AsyncGenerator[Gateway]:
    if settings.mcp is not None and pins_of(settings) is None:
        async with open_stores(settings) as stores:
            file, count = await pin_tools(settings, stores.database)
        print_stderr(f"pinned {count} tools in {file}")
    # No call asks the model.
    async with open_runtime(settings, model="rules") as runtime:
        opened = Gateway(runtime.engine, runtime.chat, user_id=user_id, page=page)
        async with opened.maintained():
            yield opened
