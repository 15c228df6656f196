"""URLs that lead to link-local addresses or metadata services."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx2
import pytest

from graph_agent.clock import SystemClock
from graph_agent.errors import ConfigurationError
from graph_agent.net.addresses import InsecureUrlError, RefusedAddressError, require_allowed_host, require_protected
from graph_agent.net.connections import checked_transport
from graph_agent.settings import read_settings
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.identity import ClientCredentials, token_source
from graph_agent.tools.transport import HttpServer, size_limited_client

REFUSED = ("169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "100.100.100.200", "[fd00:ec2::254]", "2852039166")


@pytest.mark.parametrize("host", REFUSED)
def test_an_address_where_a_cloud_gives_out_credentials_is_refused(host: str) -> None:
    with pytest.raises(RefusedAddressError):
        require_allowed_host(f"http://{host}:80/keys")


def test_a_name_is_refused_by_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 0))]
    # No name server gives a name this address.
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(RefusedAddressError):
        require_allowed_host("https://metadata.example/keys")


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.1.2.3", "localhost", "8.8.8.8"])
def test_other_addresses_are_allowed(host: str) -> None:
    require_allowed_host(f"http://{host}/keys")


async def test_no_mcp_server_is_reached_at_a_link_local_address() -> None:
    async with McpToolExecutor("http://169.254.169.254/mcp", timeout=60) as tools:
        assert not await tools.start()


async def test_no_token_is_asked_for_at_a_link_local_address() -> None:
    with pytest.raises(RefusedAddressError):
        await token_source(ClientCredentials("http://169.254.169.254/token", "me", "hunter2"), SystemClock())()


async def test_a_redirect_of_an_mcp_server_is_not_followed() -> None:
    asked: list[str] = []

    class Redirect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", f"http://localhost:{server.server_port}/stolen")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Redirect) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        async with McpToolExecutor(f"http://127.0.0.1:{server.server_port}/mcp", timeout=60) as tools:
            assert not await tools.start()
        server.shutdown()
        thread.join()
    assert "/mcp" in asked
    assert "/stolen" not in asked


TUNNELS = (
    "[64:ff9b::169.254.169.254]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b::100.100.100.200]",
    "[64:ff9b:1::1]",
    "[2002:a9fe:a9fe::]",
    "[2001:0:1::1]",
    "[::169.254.169.254]",
    "[::ffff:0:169.254.169.254]",
    "[::ffff:168.63.129.16]",
    "168.63.129.16",
    "[fd20:ce::254]",
)


@pytest.mark.parametrize("host", TUNNELS)
def test_an_address_within_another_one_does_not_hide_where_it_leads(host: str) -> None:
    with pytest.raises(RefusedAddressError):
        require_allowed_host(f"https://{host}/keys")


def test_a_public_address_behind_a_translator_is_allowed() -> None:
    require_allowed_host("https://[64:ff9b::8.8.8.8]/keys")


class Rebinding:
    """A name server that answers with each of `addresses` once, then with the last one."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = list(addresses)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int | None = None, *_: object, **__: object) -> list[tuple[object, ...]]:
        if host.replace(".", "").isdigit():
            address = host
        else:
            self.asked.append(host)
            address = self._addresses.pop(0) if len(self._addresses) > 1 else self._addresses[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port or 0))]


async def test_the_address_that_was_checked_is_the_one_that_is_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.headers["Host"])
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Keys) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://keys.example:{server.server_port}/keys"
        try:
            # A second lookup would get the address of a metadata service.
            lookup = Rebinding("127.0.0.1", "169.254.169.254")
            # No name server answers the second lookup differently.
            monkeypatch.setattr(socket, "getaddrinfo", lookup)
            async with httpx2.AsyncClient(transport=checked_transport(), timeout=60) as client:
                assert (await client.get(url)).status_code == 200
            assert lookup.asked == ["keys.example"]
        finally:
            server.shutdown()
            thread.join()
    assert seen == [f"keys.example:{server.server_port}"]


async def test_a_name_that_leads_elsewhere_after_the_check_is_not_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    # No name server answers the second lookup differently.
    monkeypatch.setattr(socket, "getaddrinfo", Rebinding("127.0.0.1", "169.254.169.254"))
    require_allowed_host("http://keys.example/keys")
    with pytest.raises(RefusedAddressError):
        async with httpx2.AsyncClient(transport=checked_transport(), timeout=60) as client:
            await client.get("http://keys.example/keys")


async def test_a_server_on_another_machine_cannot_lead_to_this_one() -> None:
    async with size_limited_client(HttpServer("https://wiki.example/mcp", allow_http=True)) as client:
        for url in ("http://127.0.0.1:6379/", "https://localhost/.well-known/oauth-authorization-server", "http://[::1]/"):
            with pytest.raises(RefusedAddressError):
                await client.get(url)


@pytest.mark.parametrize("url", ["file://localhost/etc/passwd", "vscode://localhost/evil", "javascript:alert(1)"])
def test_a_url_of_another_scheme_is_never_opened(url: str) -> None:
    with pytest.raises(InsecureUrlError):
        require_protected(url, allow_http=True)


async def test_plain_http_to_another_machine_needs_an_option() -> None:
    async with McpToolExecutor("http://wiki.example/mcp", timeout=60) as tools:
        assert tools.failure == "its URL is plain http: and leads to another machine"
    with pytest.raises(InsecureUrlError):
        await token_source(ClientCredentials("http://8.8.8.8/token", "me", "hunter2"), SystemClock())()
    tokens = {"GRAPH_AGENT_JWKS_URL": "http://keys.example/", "GRAPH_AGENT_JWT_AUDIENCE": "a", "GRAPH_AGENT_SECRET": "x" * 32}
    with pytest.raises(ConfigurationError, match="GRAPH_AGENT_JWKS_URL: must be an https URL"):
        read_settings(tokens)
    assert read_settings({**tokens, "GRAPH_AGENT_ALLOW_HTTP": "1"}).jwks_url == "http://keys.example/"
