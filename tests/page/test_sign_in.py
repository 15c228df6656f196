"""Signing in with the printed link or a bearer token, and pages of other origins."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
import pytest
from playwright.sync_api import Browser, expect
from pydantic import SecretStr

from tests.page.screenshots import say
from tests.page.site import Site, open_site

KEY = "a key for tests only, long enough"


@pytest.fixture
def bearer_site(browser: Browser, tmp_path: Path, template: Path) -> Iterator[Site]:
    """A server that requires bearer tokens."""
    settings = {"jwt_secret": SecretStr(KEY), "jwt_audience": "tests", "secret": SecretStr("signs confirmations")}
    with open_site(
        browser, tmp_path, template, lambda environment: environment.runtime(settings=settings), bearer=True
    ) as site:
        yield site


def test_without_the_link_the_page_says_how_to_sign_in(site: Site) -> None:
    with site.context(refusals=True) as context:
        page = context.new_page()
        page.goto(f"{site.url}/decisions")
        expect(page.get_by_role("heading", name="Open the link from your terminal")).to_be_visible()
        page.goto(site.link)
        expect(page).to_have_url(f"{site.url}/chat")
        expect(page.get_by_label("Message", exact=True)).to_be_visible()


def test_a_bearer_token_is_kept_in_memory_only(bearer_site: Site) -> None:
    token = jwt.encode({"sub": "ann", "aud": "tests", "exp": time.time() + 600}, KEY, algorithm="HS256")
    with bearer_site.page(refusals=True) as page:
        page.get_by_label("Token").fill("not a token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        say(page, "add a task to call mom")
        stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert token not in stored
        page.reload()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


class ForeignPage(BaseHTTPRequestHandler):
    """A document of another origin, without a policy that would stop its requests before our server is asked."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,>")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def foreign_url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), ForeignPage) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_page_of_another_origin_cannot_start_a_turn(site: Site, foreign_url: str) -> None:
    post = """async (url) => {
        const sent = {method: "POST", mode: "no-cors", credentials: "include", headers: {"Content-Type": "text/plain"}};
        await fetch(url, {...sent, body: '{"content": "add a task to call mom"}'});
    }"""
    with site.page(refusals=True) as page:
        page.get_by_label("Message", exact=True).wait_for()
        other = page.context.new_page()
        other.goto(foreign_url)
        with other.expect_response(f"{site.url}/api/chat") as answered:
            other.evaluate(post, f"{site.url}/api/chat")
        assert answered.value.status == 403
        page.goto(f"{site.url}/decisions")
        expect(page.get_by_text("No decision yet.")).to_be_visible()
