"""The serving of the page, and the origins that may send requests to the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from graph_agent.api.app import create_app
from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.static_page import PAGE_POLICY, VIEWS, Page
from graph_agent.errors import ConfigurationError
from tests.chat.environment import Environment

NAMED = "main-0ABC12DE.js"
SUFFIXES = {"br": ".br", "gzip": ".gz", None: ""}
COMPRESSED = {NAMED + suffix: f"main{suffix}".encode() for suffix in SUFFIXES.values()}
DOCUMENT = b'<html data-sign-in="SIGN-IN"></html>'
FILES = {"index.html": DOCUMENT, "app.js": b"1", "app.css": b"p{}", "notes.txt": b"no", **COMPRESSED}
SESSION = LaunchSession("t" * 43)
BROWSER = {"Sec-Fetch-Site": "same-origin"}


def client_of(
    environment: Environment, page: Page | None, launch: LaunchSession | None = None, **settings: Any
) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_app(environment.runtime(settings=settings), page, launch))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost:8000")


def cookies_of(client: httpx.AsyncClient) -> dict[str, str]:
    """Return the header with which a browser sends its cookies."""
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}


@pytest.fixture
def client(environment: Environment) -> httpx.AsyncClient:
    return client_of(environment, Page(FILES), SESSION)


@pytest.mark.parametrize(
    "path", ["/", "/chat/4b", "/inbox", "/inbox/4b", "/decisions/4b?outcome=ERROR", "/lab/4b", "/behavior"]
)
async def test_every_view_has_the_same_document_and_a_strict_policy(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.text) == (200, '<html data-sign-in="link"></html>')
    assert answer.headers["content-security-policy"] == PAGE_POLICY
    assert "unsafe" not in PAGE_POLICY
    assert "require-trusted-types-for 'script'" in PAGE_POLICY


async def test_files_are_served_with_their_type_and_an_etag(client: httpx.AsyncClient) -> None:
    answer = await client.get("/page/app.js")
    assert (answer.content, answer.headers["content-type"]) == (b"1", "text/javascript; charset=utf-8")
    again = await client.get("/page/app.js", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_compressed_files_are_sent_to_browsers_that_accept_them(client: httpx.AsyncClient) -> None:
    choices = {"gzip, deflate, br, zstd": "br", "gzip, deflate": "gzip", "identity": None, "br;q=0": None}
    for accepted, encoding in choices.items():
        async with client.stream("GET", f"/page/{NAMED}", headers={"Accept-Encoding": accepted}) as answer:
            sent = b"".join([part async for part in answer.aiter_raw()])
        assert (answer.headers.get("content-encoding"), sent) == (encoding, FILES[NAMED + SUFFIXES[encoding]])
        assert (answer.headers["vary"], answer.headers["content-type"]) == ("Accept-Encoding", "text/javascript; charset=utf-8")


async def test_a_browser_keeps_the_files_whose_names_change_with_their_content(client: httpx.AsyncClient) -> None:
    plain = {"Accept-Encoding": "identity"}
    assert (await client.get(f"/page/{NAMED}", headers=plain)).headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (await client.get("/page/app.js")).headers["cache-control"] == "no-cache"
    assert (await client.get("/chat")).headers["cache-control"] == "no-store"


async def test_a_signed_in_browser_is_told_what_a_view_begins_with(client: httpx.AsyncClient) -> None:
    assert "link" not in (await client.get("/decisions")).headers
    await client.get("/", params={"token": SESSION.token})
    link = ", ".join(
        f"<{url}>; rel=preload; as=fetch; crossorigin" for url in ("./api/decisions?together=true&limit=50", "./api/about")
    )
    assert (await client.get("/decisions")).headers["link"] == link
    # Those of a filtered list depend on the filters.
    assert "link" not in (await client.get("/decisions?outcome=ERROR")).headers
    for requests in VIEWS.values():
        for request in requests:
            assert (await client.get(request, headers=BROWSER)).status_code == 200


@pytest.mark.parametrize("path", ["/page/other.js", "/page/notes.txt", f"/page/{NAMED}.br", "/page/..%2fapp.py", "/replays"])
async def test_nothing_else_is_served(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path, headers={"Authorization": f"Bearer {SESSION.token}"})).status_code == 404


async def test_without_the_page_the_root_describes_the_api(environment: Environment) -> None:
    client = client_of(environment, None)
    described = (await client.get("/")).json()
    assert described["openapi"] == "/openapi.json"
    assert {
        "method": "GET",
        "path": "/api/topology",
        "summary": "Return the states and edges of the state machine, and the gates between a call and its effect.",
    } in described["routes"]
    assert (await client.get("/chat")).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://localhost:9000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": "http://localhost:8000"},
    ],
)
async def test_a_post_from_another_origin_is_refused(environment: Environment, headers: dict[str, str]) -> None:
    for client in (client_of(environment, None), client_of(environment, Page(FILES), SESSION)):
        answer = await client.post("/api/chat", json={"content": "add a task to call mom"}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ACCESS_DENIED")
    assert await environment.decisions() == []


async def test_a_browser_that_has_opened_the_link_has_a_cookie_that_outlives_a_restart(
    client: httpx.AsyncClient, environment: Environment
) -> None:
    refused = await client.get("/api/conversations", headers=BROWSER)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "UNAUTHENTICATED")

    wrong = await client.get("/", params={"token": "wrong"})
    assert (wrong.status_code, wrong.headers.get("set-cookie")) == (200, None)
    exchanged = await client.get("/", params={"token": SESSION.token})
    assert (exchanged.status_code, exchanged.headers["location"]) == (303, "./")
    assert {part.strip() for part in exchanged.headers["set-cookie"].split(";")[1:]} == {
        "HttpOnly",
        "Path=/",
        "SameSite=strict",
    }
    assert SESSION.token not in exchanged.headers["set-cookie"]

    assert (await client.get("/api/conversations", headers=BROWSER)).status_code == 200
    sent = {"content": "add a task to call mom"}
    posted = await client.post("/api/chat", json=sent, headers={**BROWSER, "Origin": "http://localhost:8000"})
    assert posted.status_code == 200

    restarted = client_of(environment, Page(FILES), LaunchSession(SESSION.token))
    assert (await restarted.get("/api/conversations", headers=cookies_of(client))).status_code == 200
    other = client_of(environment, Page(FILES), LaunchSession("u" * 43))
    assert (await other.get("/api/conversations", headers=cookies_of(client))).status_code == 401


async def test_with_bearer_tokens_the_document_says_so(environment: Environment) -> None:
    tokens: dict[str, Any] = {"jwt_secret": SecretStr("k" * 32), "jwt_audience": "tests"}
    assert (await client_of(environment, Page(FILES), **tokens).get("/")).text == '<html data-sign-in="bearer"></html>'


ROOTED = Page({**FILES, "index.html": b'<html data-root="ROOT" data-sign-in="SIGN-IN"></html>'})
PUBLIC = "https://example.org/agent"


@pytest.mark.parametrize(("path", "root"), [("/", "."), ("/chat", "."), ("/chat/4b", ".."), ("/agent/chat/4b", "..")])
async def test_the_document_names_the_root_of_the_server_by_a_relative_path(
    environment: Environment, path: str, root: str
) -> None:
    client = client_of(environment, ROOTED, SESSION, public_url=PUBLIC if path.startswith("/agent") else None)
    assert f'data-root="{root}"' in (await client.get(path)).text


async def test_under_a_public_url_cookies_links_and_the_api_belong_to_its_path(environment: Environment) -> None:
    client = client_of(environment, ROOTED, SESSION, public_url=PUBLIC)
    signed_in = await client.get("/agent/chat/4b", params={"token": SESSION.token})
    assert (signed_in.status_code, signed_in.headers["location"]) == (303, "./4b")
    assert {"Path=/agent", "Secure"} <= {part.strip() for part in signed_in.headers["set-cookie"].split(";")}

    cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
    preloaded = (await client.get("/agent/chat/4b", headers=cookie)).headers["link"]
    assert preloaded.startswith("<../api/conversations?limit=40>; rel=preload")
    # A proxy may have removed the path.
    for path in ("/agent/api/session", "/api/session"):
        assert (await client.get(path, headers=cookie)).status_code == 200
    assert (await client.get("/agent/openapi.json", headers=cookie)).json()["servers"] == [{"url": PUBLIC}]

    assert (await client.post("/agent/agui", content=b"{", headers=cookie)).status_code == 415
    streamed = await client.post("/agent/api/chat/stream", json={"content": "show my tasks"}, headers=cookie)
    assert (streamed.status_code, streamed.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")

    signed_out = await client.delete("/agent/api/session", headers={**cookie, **BROWSER})
    assert "Path=/agent" in signed_out.headers["set-cookie"]
    folder = await client.get("/agent", params={"token": "t"})
    assert (folder.status_code, folder.headers["location"]) == (308, "/agent/?token=t")


@pytest.mark.parametrize("path", ["/agents/api/session", "/agentapi/session", "/agent/agent/api/session"])
async def test_only_the_whole_public_path_is_removed_and_only_once(environment: Environment, path: str) -> None:
    client = client_of(environment, ROOTED, SESSION, public_url=PUBLIC)
    assert (await client.get(path, headers={"Authorization": f"Bearer {SESSION.token}"})).status_code == 404
    # What is removed opens no other path: the token is needed as before.
    assert (await client.get("/agent/api/session")).status_code == 401


HTML = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
SIGNED = {"Authorization": f"Bearer {SESSION.token}"}


@pytest.mark.parametrize("path", ["/decision", "/chat/4b/more", "/nothing/at/all", "/lab/4%2Fb", "/docs", "//evil.example/a"])
async def test_an_unknown_address_shows_the_page_to_browsers_and_an_error_to_programs(
    environment: Environment, path: str
) -> None:
    client = client_of(environment, ROOTED, SESSION)
    url = f"http://localhost:8000{path}"
    shown = await client.get(url, headers={**SIGNED, **HTML})
    assert (shown.status_code, shown.headers["content-security-policy"]) == (404, PAGE_POLICY)
    root = "/".join([".."] * (path.count("/") - 1)) or "."
    assert shown.text == f'<html data-root="{root}" data-sign-in="link"></html>'
    refused = await client.get(url, headers=HTML)
    # Addresses below those of a view are the same for everybody.
    assert refused.status_code == (404 if path.startswith(("/chat", "/lab", "//")) else 401)
    assert refused.text == shown.text
    for headers in (SIGNED, {}):
        error = await client.get(url, headers=headers)
        assert (error.status_code, list(error.json())) == (404 if headers else refused.status_code, ["error"])


@pytest.mark.parametrize("path", ["/api/nothing", "/api", "/page/other.js", "/page/"])
async def test_an_unknown_path_of_the_api_or_of_a_file_is_an_error_for_browsers_too(
    environment: Environment, path: str
) -> None:
    client = client_of(environment, ROOTED, SESSION)
    answer = await client.get(path, headers={**SIGNED, **HTML})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


async def test_a_post_and_a_server_without_the_page_get_no_document(environment: Environment) -> None:
    posted = await client_of(environment, ROOTED, SESSION).post("/nothing", headers={**SIGNED, **HTML})
    assert (posted.status_code, list(posted.json())) == (404, ["error"])
    alone = await client_of(environment, None).get("/nothing", headers=HTML)
    assert (alone.status_code, list(alone.json())) == (404, ["error"])


BRANDED = Page(
    {
        "index.html": b'<html data-name="graph_agent" data-logo=""><title>graph_agent</title><link href="ROOT/page/icon.png">'
        b"<a><svg><rect/></svg>graph_agent</a></html>"
    }
)


@pytest.mark.parametrize(("name", "content"), [("logo.svg", b'\n<svg onload="alert(1)"/>'), ("a.PNG", b"\x89PNG\r\n\x1a\n")])
async def test_the_page_has_the_name_and_the_logo_of_the_settings(
    environment: Environment, tmp_path: Path, name: str, content: bytes
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    client = client_of(environment, BRANDED, SESSION, page_name='ROOT & "Sons" <1>', page_logo=file)
    shown, logo = "ROOT &amp; &quot;Sons&quot; &lt;1&gt;", f"page/logo{file.suffix.lower()}"
    assert (await client.get("/chat/4b")).text == (
        f'<html data-name="{shown}" data-logo="/{logo}"><title>{shown}</title><link href="../{logo}">'
        f'<a><img src="../{logo}" alt="">{shown}</a></html>'
    )
    image = await client.get(f"/{logo}")
    assert (image.status_code, image.content) == (200, content)
    # Opened by itself an SVG is a document, which may run nothing.
    assert image.headers["content-security-policy"].startswith("default-src 'none'")
    assert image.headers["content-type"] in ("image/svg+xml", "image/png")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("logo.svg", None, "cannot be read"),
        ("logo.svg", b"<html>", "is no PNG or SVG"),
        ("logo.gif", b"GIF89a", "is no PNG or SVG"),
        ("logo.png", b"\x89PNG\r\n\x1a\n" + bytes(256 * 1024), "is no PNG or SVG"),
    ],
)
async def test_a_logo_that_cannot_be_shown_ends_the_start(
    environment: Environment, tmp_path: Path, name: str, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigurationError, match=f"the logo of the page .*{says}"):
        client_of(environment, BRANDED, SESSION, page_logo=tmp_path / name)
