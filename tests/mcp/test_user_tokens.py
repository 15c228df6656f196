"""Servers that act with the rights of the signed-in user: the user's token is exchanged, and nobody else sees either."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest

from graph_agent.api.app import create_app
from graph_agent.bootstrap.runtime import open_runtime
from graph_agent.clock import ManualClock
from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.record import DecisionRecord
from graph_agent.net.user_token import UserToken, signed_in_with
from graph_agent.settings import Settings
from graph_agent.tools.server_file import read_server_file
from graph_agent.tools.server_group import McpServerGroup
from graph_agent.tools.user_tokens import ExchangedToken, UserTokenExchange
from tests.api.oidc_server import Issuer
from tests.api.test_oidc import begin
from tests.gateway.test_gateway import value
from tests.gateway.test_http import connected, over_http
from tests.mcp.conftest import Servers
from tests.mcp.http_server import Recorded, recording_server
from tests.mcp.test_identity import config, whoami
from tests.mcp.test_third_party import granted, settings
from tests.permission import permitted

NO_SIGN_IN = "The server 'remote' acts with the rights of the signed-in user, and this call has no sign-in of its user; "
SECRET = "client-s3cret"


def exchange(issuer: Issuer) -> UserTokenExchange:
    return UserTokenExchange(f"{issuer.url}/token", "team", "runtime", SECRET)


def group(recorded: Recorded, issuer: Issuer, clock: ManualClock | None = None) -> McpServerGroup:
    return McpServerGroup([config(recorded.url, user_token=exchange(issuer))], clock=clock)


async def test_a_server_gets_an_exchanged_token_of_each_user_and_never_the_token_of_the_request(issuer: Issuer) -> None:
    clock = ManualClock()
    async with recording_server() as recorded:
        tools = group(recorded, issuer, clock)
        own = {user: issuer.token(sub=user) for user in ("ann", "bob")}
        for user, number in (("ann", 1), ("bob", 2), ("ann", 1)):
            with signed_in_with(user, own[user]):
                assert await whoami(tools, user) == f"Bearer {user}-at-team-{number}"
        # It is kept until shortly before it expires.
        clock.advance(seconds=569)
        with signed_in_with("ann", own["ann"]):
            assert await whoami(tools, "ann") == "Bearer ann-at-team-1"
            clock.advance(seconds=2)
            assert await whoami(tools, "ann") == "Bearer ann-at-team-3"
        # Another client of the same user may have other rights.
        with signed_in_with("ann", issuer.token(sub="ann", scope="read")):
            assert await whoami(tools, "ann") == "Bearer ann-at-team-4"
        await tools.aclose()
    assert not {f"Bearer {token}" for token in own.values()} & set(recorded.authorizations)
    assert [one["client"] for one in issuer.exchanged] == [f"runtime:{SECRET}"] * 4
    assert tools.shared_identities() == []


async def test_a_user_without_sign_in_is_refused_with_a_sentence(issuer: Issuer) -> None:
    async with recording_server() as recorded:
        tools = group(recorded, issuer)
        assert await tools.start()
        without = await tools.execute(permitted("whoami", {}, "ann", "k"))
        # An approver's request carries out what another user has requested.
        with signed_in_with("bob", issuer.token(sub="bob")):
            of_another = await tools.execute(permitted("whoami", {}, "ann", "k"))
        await tools.aclose()
    assert without == of_another
    assert (without.error_code, without.unknown) == (ToolErrorCode.TOOL_UNAVAILABLE, False)
    assert without.error == f"{NO_SIGN_IN}nothing was done."
    assert issuer.exchanged == []


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (400, {"error": "invalid_grant", "error_description": "hunter2"}, "invalid_grant"),
        (400, {"error": "hunter2"}, "its status is 400"),
        (400, {"error": ["hunter2"]}, "its status is 400"),
        (302, {}, "its status is 302"),
        (200, {"token_type": "Bearer"}, "its answer has no token"),
        (200, {"access_token": "hunter2", "token_type": "N_A"}, "its answer has no bearer token"),
        (200, {"access_token": "hunter2\r\nX: y", "token_type": "Bearer"}, "its answer has no token"),
        (200, ["hunter2"], "its answer has no token"),
        (200, None, "it cannot be reached, or its answer cannot be used"),
    ],
)
async def test_an_error_of_the_issuer_is_a_sentence_without_its_words(
    issuer: Issuer, status: int, answer: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.refusal = (status, b"<hunter2>" if answer is None else json.dumps(answer).encode())
    async with recording_server() as recorded:
        tools = group(recorded, issuer)
        with caplog.at_level(logging.DEBUG), signed_in_with("ann", issuer.token()):
            refused = await tools.execute(permitted("whoami", {}, "ann", "k"))
        await tools.aclose()
    assert refused.error == f"The issuer that signs users in to the server 'remote' gave no token ({reason}); nothing was done."
    assert "hunter2" not in caplog.text
    assert SECRET not in caplog.text


async def test_an_issuer_that_returns_the_users_own_token_is_not_believed(issuer: Issuer) -> None:
    token = issuer.token()
    issuer.refusal = (200, json.dumps({"access_token": token, "token_type": "bearer"}).encode())
    async with recording_server() as recorded:
        tools = group(recorded, issuer)
        with signed_in_with("ann", token):
            refused = await tools.execute(permitted("whoami", {}, "ann", "k"))
        await tools.aclose()
    assert "it returned the user's own token" in str(refused.error)
    assert f"Bearer {token}" not in recorded.authorizations


@pytest.mark.parametrize("lifetime", [None, "x", -1, "inf", "600"])
async def test_an_odd_lifetime_of_a_token_is_taken_for_a_short_one(issuer: Issuer, lifetime: Any) -> None:
    issuer.lifetime = lifetime
    clock = ManualClock()
    async with recording_server() as recorded:
        tools = group(recorded, issuer, clock)
        with signed_in_with("ann", issuer.token()):
            for seconds, number in ((0, 1), (200, 1), (400, 2)):
                clock.advance(seconds=seconds)
                assert await whoami(tools, "ann") == f"Bearer ann-at-team-{number}"
        await tools.aclose()


def entry(issuer: Issuer, **changes: Any) -> dict[str, Any]:
    exchanged = {"exchange": f"{issuer.url}/token", "audience": "team", "client_id": "runtime", "client_secret": "${SECRET}"}
    return {"url": "https://team.example/mcp", "user_token": {**exchanged, **changes}}


def test_the_file_says_where_tokens_are_exchanged(servers: Servers, issuer: Issuer) -> None:
    one, *_ = read_server_file(servers(a=entry(issuer)), {"SECRET": SECRET})
    assert one.user_token == exchange(issuer)
    assert SECRET in one.secrets
    assert SECRET not in repr(one)
    wrong: list[tuple[dict[str, Any], str]] = [
        (entry(issuer, audience=""), "user_token.audience is not valid"),
        (entry(issuer, audiences="x"), "user_token.audiences is not valid"),
        (entry(issuer, exchange="http://login.example/token"), "http: URL of another machine"),
        ({**entry(issuer), "url": None, "command": "x"}, "user_token is for a url"),
        ({"url": "https://x", "user_tokens": {}}, "the key is 'user_token'"),
    ]
    for entries, reason in wrong:
        with pytest.raises(ConfigurationError, match=reason) as raised:
            read_server_file(servers(a=entries), {"SECRET": SECRET})
        assert SECRET not in str(raised.value)


def signed_in(tmp_path: Path, issuer: Issuer, servers: Servers, constitution: Path, recorded: Recorded) -> Settings:
    """Return the settings of a server whose users sign in at the issuer, before the one that acts as they."""
    granted(constitution, "## Available Tools\n- act: Act (without confirmation)\n")
    call = {"function_calls": [{"name": "act", "arguments": {}}], "finish_reason": "tool_calls"}
    done = {"function_calls": [{"name": "answer", "arguments": {"text": "ok", "reports_change": True}}]}
    script = tmp_path / "script.jsonl"
    lines = (call, {**done, "finish_reason": "tool_calls"})
    script.write_text("".join(f"{json.dumps(line)}\n" for line in lines) * 4, encoding="utf-8")
    remote = {**entry(issuer, client_secret=SECRET), "url": recorded.url, "timeout": 60}
    given = settings(tmp_path, servers(remote=remote), constitution, f"scripted:{script}")
    return given.model_copy(update={**issuer.settings, "jwt_issuer": issuer.url})


async def test_the_api_acts_as_the_user_of_a_token_and_of_a_session_and_stores_neither_token(
    tmp_path: Path, servers: Servers, constitution: Path, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with recording_server() as recorded:
        configured = signed_in(tmp_path, issuer, servers, constitution, recorded)
        async with open_runtime(configured) as runtime:
            app = httpx.ASGITransport(create_app(runtime))
            bearer, stored = issuer.token(), []
            async with httpx.AsyncClient(transport=app, base_url="http://localhost") as client:

                async def chat(**headers: str) -> str:
                    answer = await client.post("/api/chat", json={"content": "go"}, headers=headers)
                    record = await runtime.engine.audit.load(answer.json()["decision_id"])
                    assert isinstance(record, DecisionRecord)
                    stored.append(answer.text + json.dumps(record.to_json()))
                    return str(record.invocations[0].tool_result.error)

                assert await chat(Authorization=f"Bearer {bearer}") == "None"
                assert recorded.authorizations[-1] == "Bearer ann-at-team-1"

                # The page has a session and the token of the sign-in, both in cookies.
                signed = await client.post("/api/sign-in", json=await begin(client, issuer))
                sealed = client.cookies["graph_agent_user_token"]
                assert await chat() == "None"
                assert recorded.authorizations[-1] == "Bearer ann-at-team-2"
                (subject,) = {one["subject_token"] for one in issuer.exchanged} - {bearer}
                assert subject not in str(signed.headers)
                assert "HttpOnly" in str(signed.headers)

                # A session alone is that of a user without a token, and the cookie of another user is none.
                del client.cookies["graph_agent_user_token"]
                assert await chat() == f"{NO_SIGN_IN}nothing was done."
                issuer.user = "bob"
                await client.post("/api/sign-in", json=await begin(client, issuer))
                client.cookies["graph_agent_user_token"] = sealed
                assert await chat() == f"{NO_SIGN_IN}nothing was done."
                assert recorded.authorizations[-1] == "Bearer ann-at-team-2"
                assert (await client.delete("/api/session")).headers.get_list("set-cookie")[1].startswith("graph_agent_user")
    for secret in (bearer, subject, "ann-at-team", SECRET):
        assert secret not in "\n".join([*stored, caplog.text])


async def test_the_gateway_acts_as_the_user_of_a_token(
    tmp_path: Path, servers: Servers, constitution: Path, issuer: Issuer
) -> None:
    async with recording_server() as recorded:
        configured = signed_in(tmp_path, issuer, servers, constitution, recorded)
        async with open_runtime(configured) as runtime, over_http(runtime, configured) as url:
            for user, number in (("ann", 1), ("bob", 2)):
                headers = {"Authorization": f"Bearer {issuer.token(sub=user, scope='read write')}"}
                async with connected(url, headers) as client:
                    assert value(await client.call_tool("act", {}))["success"] is True
                assert recorded.authorizations[-1] == f"Bearer {user}-at-team-{number}"


def test_a_token_is_in_no_text_of_its_object() -> None:
    assert "s3cret" not in repr((UserToken("ann", "s3cret"), ExchangedToken("s3cret", 0)))
    assert SECRET not in repr(exchange(Issuer(url="http://127.0.0.1")))
