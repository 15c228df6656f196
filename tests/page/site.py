"""The page in the system's Chromium: a server with the built page, and browser pages that record what must not happen."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from graph_agent.api.launch_session import LaunchSession
from graph_agent.api.static_page import read_page
from graph_agent.bootstrap.runtime import Runtime
from tests.api.live_server import live_server
from tests.chat.environment import Environment
from tests.run_folder import VARIABLE, service

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first one is made for tests: a page costs it a quarter of the time."""
CHROMIUM = next(filter(None, map(shutil.which, PROGRAMS)), None)

WAIT_MS = 120_000
"""A limit for what never happens, not an expectation: a busy machine is slow to start the processes of a replay."""

_LOOPBACK = re.compile(r"(https?://(127\.0\.0\.1|localhost)(:\d+)?/|data:|blob:|about:|file:)")
_REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")


@dataclass
class Site:
    """A running server, and the problems that its pages have reported."""

    url: str
    session: LaunchSession | None
    browser: Browser
    problems: list[str] = field(default_factory=list)

    @property
    def link(self) -> str:
        """The link that `serve` prints."""
        return f"{self.url}/" if self.session is None else f"{self.url}/?token={self.session.token}"

    @contextmanager
    def context(self, *, refusals: bool = False, **options: Any) -> Iterator[BrowserContext]:
        """A browser profile of its own. With `refusals` responses with a status of 4xx are expected."""
        context = self.browser.new_context(**options)
        context.set_default_timeout(WAIT_MS)

        def check_console(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning") and not (refusals and _REFUSED.match(message.text)):
                self.problems.append(f"console: {message.text}")

        def check_request(request: Request) -> None:
            if not _LOOPBACK.match(request.url):
                self.problems.append(f"request to {request.url}")

        context.on("console", check_console)
        context.on("request", check_request)
        context.on("weberror", lambda error: self.problems.append(f"exception: {error.error}"))
        try:
            yield context
        finally:
            context.close()

    @contextmanager
    def page(self, *, panel: bool = False, **options: Any) -> Iterator[Page]:
        """A signed-in page in a profile of its own; with the `panel` of the turn if its user has opened it before."""
        with self.context(**options) as context:
            page = context.new_page()
            page.goto(self.link)
            if panel:
                page.evaluate("localStorage.setItem('graph_agent.turn-panel', '')")
                page.reload()
            yield page


@contextmanager
def launched(*arguments: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--in-process-gpu", *arguments], timeout=WAIT_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def chromium() -> Iterator[Browser]:
    """A connection to the Chromium of the run of the tests; outside of one, a Chromium of its own."""
    expect.set_options(timeout=WAIT_MS)
    if VARIABLE not in os.environ:
        with launched() as browser:
            yield browser
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(service("tests.page.chromium_server"), timeout=WAIT_MS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_site(
    browser: Browser,
    folder: Path,
    template: Path,
    make: Callable[[Environment], Runtime],
    *,
    bearer: bool = False,
    **settings: Any,
) -> Iterator[Site]:
    """A server over `make`'s runtime, with these settings of `HttpServerConfig`.

    On exit every problem that a page has reported fails the test.
    """
    session = None if bearer else LaunchSession(secrets.token_urlsafe(32))
    built = read_page()
    assert built is not None, "the page is not built: run `make page`"
    with live_server(folder, template, make, built, session, **settings) as server:
        site = Site(server.url, session, browser)
        yield site
        assert site.problems == [], site.problems
