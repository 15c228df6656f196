"""`graph-agent gateway` and `graph-agent tools serve`: MCP servers over stdio or streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from graph_agent.api.server import HttpServerConfig, Server
from graph_agent.bootstrap import LOCAL_USER, toolbox
from graph_agent.bootstrap.database_rules import pins_of
from graph_agent.bootstrap.definitions import pin_tools
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.bootstrap.secret import launch_token, token_file
from graph_agent.bootstrap.stores import open_stores
from graph_agent.bootstrap.tools_app import mcp_app, tools_app
from graph_agent.cli.listening import open_listener, parse_address, serve_until_stopped, url_of
from graph_agent.cli.options import NoToken, User, option, with_rules
from graph_agent.cli.running import open_in_loop, print_stderr, wrong_usage
from graph_agent.errors import ConfigurationError
from graph_agent.gateway.server import Gateway
from graph_agent.net.addresses import is_loopback
from graph_agent.settings import Settings, read_settings

T = TypeVar("T")

SHUTDOWN_SECONDS = 5
"""The time that running calls get after Ctrl-C or SIGTERM."""

Http = Annotated[
    str | None, option("--http", "HOST:PORT", "Serve streamable HTTP at /mcp instead of stdio; port 0 takes a free one.")
]
Url = Annotated[str | None, option("--url", "URL", "With bearer tokens: the URL that clients use, if it differs from --http.")]


@with_rules()
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
    _serve_mcp(settings, "gateway", opening, Gateway.run_stdio, app, user=user, http=http, url=url, no_token=no_token)


def serve_tools(user: User = LOCAL_USER, http: Http = None, url: Url = None, no_token: NoToken = False) -> None:
    """Serve the shipped task list to any MCP client, over stdio or HTTP.

    Over stdio, and over HTTP without bearer tokens, it serves one user; over HTTP only on a loopback address, to clients that
    send the launch token in a file of GRAPH_AGENT_HOME. With bearer tokens (GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL) it
    serves the user of each token, on any address.
    """
    settings = read_settings()
    if settings.mcp is not None:
        raise ConfigurationError(
            "`tools serve` serves the shipped task list, not the servers of GRAPH_AGENT_MCP: `graph-agent gateway` serves those"
        )
    _serve_mcp(
        settings,
        "tasks",
        open_stores(settings),
        lambda stores: toolbox.serve_tools(stores.database, user),
        lambda stores, address, token: tools_app(settings, stores.database, user, address, token),
        user=user,
        http=http,
        url=url,
        no_token=no_token,
    )


@asynccontextmanager
async def _open_gateway(settings: Settings, user_id: str | None, page: str) -> AsyncGenerator[Gateway]:
    if settings.mcp is not None and pins_of(settings) is None:
        async with open_stores(settings) as stores:
            file, count = await pin_tools(settings, stores.database)
        print_stderr(f"pinned {count} tools in {file}")
    # No call asks the model.
    async with open_runtime(settings, model="embedded") as runtime:
        opened = Gateway(runtime.engine, runtime.chat, user_id=user_id, page=page, announce=print_stderr)
        async with opened.maintained():
            yield opened


def _serve_mcp(
    settings: Settings,
    name: str,
    resource: AbstractAsyncContextManager[T],
    over_stdio: Callable[[T], Coroutine[Any, Any, None]],
    app: Callable[[T, str, str | None], Any],
    *,
    user: str,
    http: str | None,
    url: str | None,
    no_token: bool,
) -> None:
    """Open `resource` and serve over stdio until the client disconnects, or over HTTP until Ctrl-C or SIGTERM.

    `name` is the noun of the messages, such as "tasks". `app` returns the ASGI application for the resource, the URL that
    clients use, and the launch token that they send, if any.
    """
    if no_token and (http is None or settings.authenticates):
        wrong_usage("a launch token is required only over HTTP without bearer tokens: leave --no-token out")
    if http is None:
        with open_in_loop(resource) as (opened, run), suppress(KeyboardInterrupt):
            print_stderr(f"serving the {name} of {user} over stdio")
            run(over_stdio(opened))
        return
    host, port = parse_address(http, "--http")
    if settings.authenticates:
        _require_usable_address(host, user, url)
    elif not is_loopback(host):
        wrong_usage(
            f"without bearer tokens tools are served on loopback addresses only, and {host} is not one: "
            "configure GRAPH_AGENT_JWT_SECRET or GRAPH_AGENT_JWKS_URL first"
        )
    with closing(open_listener(host, port)) as listener, open_in_loop(resource) as (opened, run):
        bound = f"{url_of(host, listener)}/mcp"
        token = None if no_token or settings.authenticates else launch_token(settings)
        whose = "each token's user" if settings.authenticates else user
        config = HttpServerConfig(app(opened, url or bound, token), lifespan="on", timeout_graceful_shutdown=SHUTDOWN_SECONDS)

        def announce() -> None:
            print_stderr(f"serving the {name} of {whose} on {bound}")
            if token is not None:
                print_stderr(f"clients send the header in {token_file(settings)}")

        with suppress(KeyboardInterrupt):
            run(serve_until_stopped(Server(config, announce), listener))


def _require_usable_address(host: str, user: str, url: str | None) -> None:
    if user != LOCAL_USER:
        wrong_usage("with bearer tokens the user is the subject of the token: leave --user out")
    if url is None and host in ("0.0.0.0", "::"):
        wrong_usage(f"{host} is no address that clients know: give --url, such as https://tasks.example/mcp")
    try:
        parts = urlsplit(url or "http://example/mcp")
    except ValueError:  # such as an address in brackets that do not end
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.username or parts.query or parts.fragment:
        wrong_usage("--url takes an http or https URL without user, query and fragment")
