"""Signing in with the printed link or a bearer token, and pages of other origins."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jwt
import pytest
from playwright.sync_api import Browser, Page, Route, expect
from pydantic import SecretStr

from tests.api.oidc_server import Issuer
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings

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


def test_the_bar_names_the_user_and_signs_out(site: Site) -> None:
    with site.page(refusals=True) as page:
        say(page, "hello")
        page.get_by_role("button", name="local").click()
        expect(page.get_by_text("Signed in as local")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Open the link from your terminal")).to_be_visible()
        assert page.context.cookies() == []
        page.goto(f"{site.url}/chat")
        expect(page.get_by_role("heading", name="Open the link from your terminal")).to_be_visible()
        page.goto(site.link)
        expect(page.get_by_label("Message", exact=True)).to_be_visible()


def token_of(user: str) -> str:
    return jwt.encode({"sub": user, "aud": "tests", "exp": time.time() + 600}, KEY, algorithm="HS256")


def sign_in(page: Page, user: str) -> None:
    page.get_by_label("Token").fill(token_of(user))
    page.get_by_role("button", name="Sign in").click()


def test_a_bearer_token_is_exchanged_for_a_session_that_no_script_can_read(bearer_site: Site) -> None:
    token = token_of("ann")
    with bearer_site.page(refusals=True) as page:
        page.get_by_label("Token").fill("not a token")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_have_text(
            "This server does not accept that token: it is wrong, or it has expired."
        )
        assert findings(page) == []
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        say(page, "add a task to call mom")
        page.reload()
        expect(page.locator(".message.assistant")).to_have_count(1)
        stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert stored == '[{},{},""]'
        page.get_by_role("button", name="ann").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert page.context.cookies() == []


def test_a_late_refusal_does_not_end_the_sign_in_that_came_meanwhile(bearer_site: Site) -> None:
    late: list[Route] = []
    with bearer_site.context(refusals=True) as context:
        page = context.new_page()
        page.route("**/api/about", lambda route: route.fallback() if late else late.append(route))
        page.goto(bearer_site.link)
        sign_in(page, "ann")
        say(page, "hello")
        with page.expect_response(late[0].request.url) as refused:
            late[0].fulfill(status=401, json={"error": {"code": "UNAUTHENTICATED", "message": "A bearer token is required."}})
        assert refused.value.status == 401
        say(page, "hello")


def test_an_end_user_sees_no_view_of_operators_and_opens_the_states_of_a_turn_when_asked(
    browser: Browser, tmp_path: Path, template: Path
) -> None:
    settings = {"jwt_secret": SecretStr(KEY), "jwt_audience": "tests", "secret": SecretStr("signs confirmations")}
    settings |= {"auditors": ("eve",), "page_name": "Order desk"}
    with (
        open_site(browser, tmp_path, template, lambda made: made.runtime(settings=settings), bearer=True) as site,
        site.page(refusals=True, viewport={"width": 1360, "height": 800}) as page,
    ):
        views = page.get_by_role("navigation", name="Views").get_by_role("link")
        sign_in(page, "ann")
        say(page, "add a task to call mom")
        expect(views).to_have_text(["Chat", "Inbox", "Decisions"])
        expect(page).to_have_title("Chat · Order desk")
        expect(page.locator(".brand")).to_have_text("Order desk")
        machine = page.locator("svg.machine")
        expect(machine).to_have_count(1)
        expect(machine).not_to_be_visible()
        assert findings(page) == []
        page.locator(".panel-toggle").click()
        expect(machine).to_be_visible()
        page.reload()
        expect(machine).to_be_visible()
        page.locator(".panel-toggle").click()
        page.reload()
        expect(page.locator(".message.assistant")).to_be_visible()
        expect(machine).not_to_be_visible()
        page.get_by_role("link", name="Decision", exact=True).click()
        expect(page.get_by_role("heading", name="Steps")).to_be_visible()
        expect(machine).not_to_be_visible()
        page.get_by_text("The states of the turn").click()
        expect(machine).to_be_visible()
        expect(page.get_by_role("link", name="Try other rules")).to_have_count(0)
        for view in ("lab", "behavior"):
            page.goto(f"{site.url}/{view}")
            expect(page.get_by_role("heading", name="Not found")).to_be_visible()

        # Whoever signs in next has other views.
        page.get_by_title("Account and help").click()
        page.get_by_role("button", name="Sign out").click()
        sign_in(page, "eve")
        expect(views).to_have_text(["Chat", "Inbox", "Decisions", "Lab", "Behavior"])
        page.goto(f"{site.url}/chat")
        expect(machine).not_to_be_visible()


def test_an_unknown_address_shows_a_page_that_leads_back(site: Site) -> None:
    with site.page(refusals=True) as page:
        page.get_by_label("Message", exact=True).wait_for()
        for path in ("/decision", "/chat/4b/more", "/a/b/c/"):
            answer = page.goto(f"{site.url}{path}")
            assert answer is not None
            assert answer.status == 404
            expect(page.get_by_role("heading", name="Not found")).to_be_visible()
            expect(page).to_have_title("Not found · graph_agent")
            assert findings(page) == []
        page.get_by_role("link", name="Go to the chat").click()
        expect(page.get_by_label("Message", exact=True)).to_be_visible()


def test_a_sign_in_that_ends_is_named_and_another_users_conversation_has_no_composer(bearer_site: Site) -> None:
    with bearer_site.page(refusals=True) as page:
        sign_in(page, "ann")
        say(page, "add a task to call mom")
        expired = {"error": {"code": "UNAUTHENTICATED", "message": "The token has expired."}}
        page.route("**/api/chat/stream", lambda route: route.fulfill(status=401, json=expired))
        page.get_by_label("Message", exact=True).fill("show my tasks")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("your sign-in has expired")
        sign_in(page, "bob")
        expect(page.get_by_role("heading", name="Not yours")).to_be_visible()
        expect(page.get_by_label("Message", exact=True)).to_have_count(0)


@pytest.fixture
def oidc_site(browser: Browser, tmp_path: Path, template: Path, issuer: Issuer) -> Iterator[Site]:
    """A server whose users sign in at an issuer."""
    with open_site(
        browser, tmp_path, template, lambda environment: environment.runtime(settings=issuer.settings), bearer=True
    ) as site:
        yield site


def test_a_user_signs_in_at_the_issuer_and_comes_back_to_the_same_view(oidc_site: Site, issuer: Issuer) -> None:
    with oidc_site.context(refusals=True) as context:
        page = context.new_page()
        fetched: list[str] = []
        page.on("request", lambda request: fetched.append(request.url) if request.resource_type == "fetch" else None)
        page.goto(f"{oidc_site.url}/decisions?outcome=REFUSAL")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Continue as ann").click()
        expect(page.get_by_text("No decision matches these filters.")).to_be_visible()
        expect(page).to_have_url(f"{oidc_site.url}/decisions?outcome=REFUSAL")

        page.get_by_role("link", name="Chat", exact=True).click()
        say(page, "add a task to call mom")
        expect(page.locator(".receipt")).to_have_text("Add task 'call mom'")
        stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert stored == '[{},{},""]'
        assert [url for url in fetched if not url.startswith(f"{oidc_site.url}/")] == []
    assert "/token" in issuer.asked


def test_the_session_of_the_issuer_survives_a_reload_and_a_second_tab_until_the_user_signs_out(oidc_site: Site) -> None:
    with oidc_site.context(refusals=True) as context:
        page = context.new_page()
        page.goto(f"{oidc_site.url}/decisions")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Continue as ann").click()
        expect(page.get_by_text("No decision yet.")).to_be_visible()
        page.reload()
        expect(page.get_by_text("No decision yet.")).to_be_visible()
        second = context.new_page()
        second.goto(f"{oidc_site.url}/chat")
        say(second, "add a task to call mom")

        second.get_by_role("button", name="ann").click()
        second.get_by_role("button", name="Sign out").click()
        expect(second.get_by_role("heading", name="Sign in")).to_be_visible()
        page.reload()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_a_sign_in_that_is_cancelled_or_not_begun_here_says_so(oidc_site: Site, issuer: Issuer) -> None:
    with oidc_site.context(refusals=True) as context:
        page = context.new_page()
        page.goto(f"{oidc_site.url}/chat")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Cancel").click()
        expect(page.get_by_role("alert")).to_have_text("You were not signed in.")
        assert findings(page) == []
        # A code that someone else has asked for, and a link that brings the browser here.
        page.goto(f"{oidc_site.url}/signed-in?code=stolen&state=guessed")
        expect(page.get_by_role("alert")).to_contain_text("That sign-in was not begun in this tab.")
        expect(page).to_have_url(f"{oidc_site.url}/chat")
    assert "/token" not in issuer.asked


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
