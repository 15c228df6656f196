"""The page behind nginx, which serves it under a path of its host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.api.oidc_server import oidc_issuer
from tests.page.nginx_proxy import NGINX, nginx_proxy
from tests.page.screenshots import say
from tests.page.site import Site, open_site

pytestmark = pytest.mark.skipif(NGINX is None, reason="there is no nginx: apt-get install nginx")


@contextmanager
def proxied(
    browser: Browser, folder: Path, template: Path, *, keep_path: bool = False, bearer: bool = False, **settings: Any
) -> Iterator[Site]:
    """A site behind nginx, whose pages may ask for nothing outside of the site's path."""
    with (
        open_site(browser, folder, template, lambda made: made.runtime(settings=settings), bearer=bearer) as site,
        nginx_proxy(folder, site.url, keep_path=keep_path) as url,
    ):
        yield replace(site, url=url)


def watch(page: Page, site: Site) -> None:
    """Report each request that leaves the path of the site."""
    strays = site.problems
    page.on("request", lambda asked: strays.append(asked.url) if not asked.url.startswith(f"{site.url}/") else None)


def walk(page: Page, site: Site) -> None:
    """Open each view by its link and by its address, with a turn and a confirmation in between."""
    say(page, "add a task to call mom")
    say(page, "delete the call mom task")
    page.get_by_role("button", name="Confirm").click()
    expect(page.locator(".card.closed")).to_have_count(1)
    for name in ("Decisions", "Lab", "Behavior", "Chat"):
        page.get_by_role("link", name=name, exact=True).click()
        expect(page).to_have_url(f"{site.url}/{name.lower()}")
        expect(page.locator("nav [aria-current=page]")).to_have_text(name)
        page.reload()
        expect(page.locator("nav [aria-current=page]")).to_have_text(name)
    page.locator(".conversations li a").first.click()
    expect(page.locator(".message.assistant")).to_have_count(2)
    page.reload()
    expect(page.locator(".message.assistant")).to_have_count(2)
    page.get_by_role("link", name="Decision", exact=True).first.click()
    expect(page.get_by_role("heading", name="Steps")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Steps")).to_be_visible()
    page.get_by_role("link", name="Try other rules").click()
    expect(page.locator("nav [aria-current=page]")).to_have_text("Lab")
    page.get_by_title("Account and help").click()
    page.get_by_role("link", name="What do the words mean?").click()
    expect(page).to_have_url(f"{site.url}/help")
    path = urlsplit(site.url).path
    for link in page.locator("a").all():
        assert (link.get_attribute("href") or "").startswith((f"{path}/", "#"))


@pytest.mark.parametrize("keep_path", [False, True])
def test_every_view_works_under_a_path_whether_the_proxy_removes_it_or_not(
    browser: Browser, tmp_path: Path, template: Path, *, keep_path: bool
) -> None:
    settings: dict[str, Any] = {"public_url": "http://127.0.0.1/agent"} if keep_path else {}
    with proxied(browser, tmp_path, template, keep_path=keep_path, **settings) as site, site.context() as context:
        page = context.new_page()
        watch(page, site)
        page.goto(site.link)
        expect(page).to_have_url(f"{site.url}/chat")
        assert [cookie.get("path") for cookie in context.cookies()] == ["/agent" if keep_path else "/"]
        walk(page, site)


def test_a_user_signs_in_at_the_issuer_and_out_under_a_path(browser: Browser, tmp_path: Path, template: Path) -> None:
    with (
        oidc_issuer() as issuer,
        proxied(browser, tmp_path, template, bearer=True, public_url="http://127.0.0.1/agent", **issuer.settings) as site,
        site.context(refusals=True) as context,
    ):
        page = context.new_page()
        page.goto(f"{site.url}/decisions?outcome=REFUSAL")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("link", name="Continue as ann").click()
        expect(page).to_have_url(f"{site.url}/decisions?outcome=REFUSAL")
        expect(page.get_by_text("No decision matches these filters.")).to_be_visible()
        assert [cookie.get("path") for cookie in context.cookies()] == ["/agent"]
        page.get_by_role("button", name="ann").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert context.cookies() == []
