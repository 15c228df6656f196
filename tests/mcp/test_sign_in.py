"""Sign-in to a server in the browser."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.shared.auth import OAuthToken
from pydantic import SecretStr

from graph_agent.bootstrap.toolbox import sign_in_to
from graph_agent.clock import ManualClock
from graph_agent.db.private_file import lock_file, replace_private_file
from graph_agent.errors import ConfigurationError
from graph_agent.settings import Settings
from graph_agent.tools.identity import SignIns, sign_in
from graph_agent.tools.server_file import ServerConfig
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.tools.transport import HttpServer
from tests.mcp.authorization_server import protected_server
from tests.mcp.conftest import Servers
from tests.permission import permitted


class Browser:
    """Opens the address that it is shown, after the requests that another program sends to the redirect."""

    def __init__(self, *forged: str) -> None:
        self._forged = forged
        self.visits: list[asyncio.Task[None]] = []

    def __call__(self, address: str) -> None:
        self.visits.append(asyncio.create_task(self._visit(address)))

    async def _visit(self, address: str) -> None:
        redirect = parse_qs(urlsplit(address).query)["redirect_uri"][0]
        async with httpx2.AsyncClient(timeout=60) as client:
            for query in self._forged:
                with pytest.raises(httpx2.HTTPError):
                    await client.get(f"{redirect}?{query}")
            shown = await client.get(address, follow_redirects=True)
            assert shown.text.startswith("Signed in.")


def group(url: str, sign_ins: SignIns, clock: ManualClock | None = None) -> McpServerGroup:
    return McpServerGroup([ServerConfig("wiki", HttpServer(url), timeout=60)], sign_ins=sign_ins, clock=clock)


def test_a_sign_in_that_is_stored_while_another_process_stores_one_waits_and_keeps_both(tmp_path: Path) -> None:
    file = tmp_path / "sign_ins.json"
    sign_ins, tokens = SignIns(file), OAuthToken(access_token="t")
    sign_ins.put("https://a.example", tokens, {}, now=0)
    with ThreadPoolExecutor() as pool:
        with lock_file(file):
            before = json.loads(file.read_bytes())
            storing = pool.submit(sign_ins.put, "https://c.example", tokens, {}, now=0)
            # Long enough for one that does not wait.
            wait([storing], timeout=0.2)
            with replace_private_file(file) as changed:
                changed.write(json.dumps({**before, "https://b.example": before["https://a.example"]}).encode())
        storing.result()
    assert sorted(json.loads(file.read_bytes())) == ["https://a.example", "https://b.example", "https://c.example"]


async def test_a_server_is_used_after_a_sign_in_and_its_tokens_are_in_a_file_of_the_owner(
    tmp_path: Path, servers: Servers
) -> None:
    async with protected_server() as protected:
        settings = Settings(
            GRAPH_AGENT_HOME=tmp_path / "home",
            GRAPH_AGENT_MCP=servers(wiki={"url": protected.url}),
            GRAPH_AGENT_SECRET=SecretStr("x" * 32),
        )
        before = group(protected.url, SignIns(settings.home / "sign_ins.json"))
        assert not await before.start()
        assert "tools sign-in" in before.failure("wiki")
        await before.aclose()

        browser = Browser("code=stolen&state=forged", "error=access_denied")
        await sign_in_to(settings, "wiki", browser)
        await asyncio.gather(*browser.visits)
        file = settings.home / "sign_ins.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        after = group(protected.url, SignIns(file))
        assert (await after.execute(permitted("act", {}, "ann"))).data == {"done": True}
        await after.aclose()
        (redirect,) = {form["redirect_uri"] for form in protected.forms}
        assert redirect.startswith("http://127.0.0.1:")


async def test_tokens_are_renewed_before_they_expire_also_after_a_restart(tmp_path: Path) -> None:
    sign_ins = SignIns(tmp_path / "sign_ins.json")
    async with protected_server() as protected:
        browser = Browser()
        await sign_in(HttpServer(protected.url), sign_ins, browser)
        await asyncio.gather(*browser.visits)
        signed_in = sign_ins.get(protected.url)
        assert signed_in is not None
        clock = ManualClock()
        clock.advance(seconds=signed_in["expires_at"] - clock.now().timestamp() - 29)
        for number in (2, 3):
            tools = group(protected.url, sign_ins, clock)
            assert (await tools.execute(permitted("act", {}, "ann"))).success
            await tools.aclose()
            assert protected.valid == {f"access-{number}"}
            assert protected.forms[-1]["grant_type"] == "refresh_token"
            clock.advance(seconds=3600)


async def test_a_token_goes_to_the_url_that_it_was_made_for_and_nowhere_else(tmp_path: Path) -> None:
    sign_ins = SignIns(tmp_path / "sign_ins.json")
    async with protected_server() as protected, protected_server() as other:
        browser = Browser()
        await sign_in(HttpServer(protected.url), sign_ins, browser)
        await asyncio.gather(*browser.visits)
        other.valid = protected.valid
        tools = group(other.url, sign_ins)
        assert not await tools.start()
        await tools.aclose()


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [(lambda file: file.chmod(0o644), "chmod 600"), (lambda file: file.write_text("{"), "cannot be read")],
)
def test_a_file_of_sign_ins_that_others_can_read_or_that_is_damaged_is_refused(
    tmp_path: Path, spoil: Callable[[Path], object], problem: str
) -> None:
    file = tmp_path / "sign_ins.json"
    file.write_text(json.dumps({"https://x": {}}), encoding="utf-8")
    file.chmod(0o600)
    assert SignIns(file).get("https://x") == {}
    spoil(file)
    with pytest.raises(ConfigurationError, match=problem):
        SignIns(file).get("https://x")


async def test_a_server_without_an_address_or_without_a_sign_in_is_named(tmp_path: Path, servers: Servers) -> None:
    settings = Settings(
        GRAPH_AGENT_HOME=tmp_path, GRAPH_AGENT_MCP=servers(notes={"command": "x"}), GRAPH_AGENT_SECRET=SecretStr("x" * 32)
    )
    with pytest.raises(ConfigurationError, match="no server 'notes' with a url"):
        await sign_in_to(settings, "notes", lambda _: None)
    with pytest.raises(ConfigurationError, match="the sign-in failed"):
        await sign_in(HttpServer("http://169.254.169.254/mcp"), SignIns(tmp_path / "s.json"), lambda _: None)
