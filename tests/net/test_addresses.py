"""URLs that lead to link-local addresses or metadata services."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from graph_agent.net.addresses import RefusedAddressError, require_allowed_host
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.tools.identity import ClientCredentials, TokenSource

REFUSED = ("169.254.169.254", "[fe80::1]", "[::ffff:169.254.169.254]", "100.100.100.200", "[fd00:ec2::254]", "2852039166")


@pytest.mark.parametrize("host", REFUSED)
def test_an_address_where_a_cloud_gives_out_credentials_is_refused(host: str) -> None:
    with pytest.raises(RefusedAddressError):
        require_allowed_host(f"http://{host}:80/keys")


def test_a_name_is_refused_by_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 0))]
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
        await TokenSource(ClientCredentials("http://169.254.169.254/token", "me", "hunter2"))()


async def test_a_redirect_of_an_mcp_server_is_not_followed() -> None:
    asked: list[str] = []

    class Redirect(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/stolen")
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
