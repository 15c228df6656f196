"""The server's clock, places in lists and threads, long texts, and what is shown to somebody who may not see a conversation."""

from __future__ import annotations

import asyncio
import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, expect

from graph_agent.bootstrap import LOCAL_USER
from tests.page.history import with_decisions
from tests.page.screenshots import say
from tests.page.site import Site, open_site

EARLIER = 120


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Site]:
    """One server for the module, whose log has some days of decisions."""
    folder = tmp_path_factory.mktemp("site")
    with open_site(browser, folder, template, lambda environment: environment.runtime()) as site:
        yield site


def ask_to_delete(page: Page) -> None:
    say(page, "add a task to call mom")
    say(page, "delete the call mom task")


@pytest.mark.parametrize("minutes", [-10, 10])
def test_the_countdown_is_right_in_a_browser_whose_clock_is_wrong(site: Site, minutes: int) -> None:
    with site.context() as context:
        page = context.new_page()
        page.clock.install(time=datetime.now(UTC) + timedelta(minutes=minutes))
        page.goto(site.link)
        ask_to_delete(page)
        expect(page.get_by_role("timer")).to_have_text(re.compile(r"^(5:00|4:\d\d)$"))
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator(".card")).to_have_attribute("data-state", "done")
        # A list of the last hour has the decisions that were just made.
        page.goto(f"{site.url}/behavior?within=hour")
        expect(page.locator(".tiles")).to_contain_text("Decisions")
        expect(page.locator(".tile strong").first).not_to_have_text("0")


# In the page: a handler of Playwright's routes loses the answer to a request that it handles while the clock is moved.
SLOW_LIST = """(ahead) => {
    const now = Date.now;
    const send = window.fetch;
    let later = 0;
    Date.now = () => now() + later;
    window.fetch = async (url, options) => {
        const slow = url.includes("/decisions?");
        if (slow) ahead = 0;
        const date = new Date(Date.now() + ahead).toUTCString();
        const { body, status, headers } = await send(url, options);
        if (slow) later += 30_000;
        return new Response(body, { status, headers: { ...Object.fromEntries(headers), date } });
    };
}"""


@pytest.mark.parametrize("ahead_ms", [0, 5000])
def test_a_slow_answer_does_not_set_the_clock_back(site: Site, ahead_ms: int) -> None:
    """The server has the time of the browser, or was seconds ahead until now, and its list of decisions takes half a minute."""
    with site.page() as page:
        say(page, "hello")
        page.evaluate(SLOW_LIST, ahead_ms)
        page.get_by_role("link", name="Behavior", exact=True).click()
        page.locator(".tiles").wait_for()
        page.get_by_role("link", name="Decisions", exact=True).click()
        page.locator(".row").first.wait_for()
        real = time.time()
        before = page.evaluate("Date.now() / 1000")
        assert before > real + 29
        with page.expect_request("**/api/metrics?*") as asked:
            page.get_by_role("link", name="Behavior", exact=True).click()
        until = parse_qs(urlsplit(asked.value.url).query)["until"][0]
        assert datetime.fromisoformat(until).timestamp() >= before


def test_a_pasted_text_that_is_too_long_is_kept_and_counted(site: Site) -> None:
    with site.page() as page:
        field = page.get_by_label("Message", exact=True)
        field.fill("x" * 6000)
        expect(page.locator("#composer-note")).to_have_text("6,000 characters: shorten the message to 4,000 to send it.")
        expect(page.get_by_role("button", name="Send")).to_be_disabled()
        expect(field).to_have_value("x" * 6000)
        # An emoji is one character, as the server counts.
        field.fill("😀" * 4000)
        expect(page.locator("#composer-note")).to_have_text("")


def test_a_conversation_that_cannot_be_read_has_no_composer(site: Site) -> None:
    with site.page(refusals=True) as page:
        page.goto(f"{site.url}/chat/00000000-0000-4000-8000-000000000000")
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        expect(page.get_by_label("Message", exact=True)).to_have_count(0)


def test_earlier_messages_stay_and_keep_their_place(site: Site) -> None:
    with site.page() as page:
        say(page, "hello")
        conversation = page.url.rpartition("/")[2]
        for number in range(EARLIER // 2):
            sent = page.request.post(
                f"{site.url}/api/chat", data={"content": f"hello {number}", "conversation_id": conversation}
            )
            assert sent.ok
        page.reload()
        first = page.locator(".message").first
        first.wait_for()
        expect(page.locator(".message")).to_have_count(100)
        first.scroll_into_view_if_needed()
        page.locator(".thread").evaluate("thread => thread.scrollTop = 0")
        shown = first.locator(".content").inner_text()
        mark = page.locator(".message", has_text=shown).first
        before = mark.bounding_box()
        page.get_by_role("button", name="Earlier messages").click()
        expect(page.locator(".message")).to_have_count(2 + EARLIER)
        after = page.locator(".message").nth(2 + EARLIER - 100).bounding_box()
        assert before is not None
        assert after is not None
        # The button above is gone; the message stays where it was.
        assert abs(after["y"] - before["y"]) < 60
        # A refresh, as another tab causes it, keeps them.
        with page.expect_response(re.compile(f"/api/conversations/{conversation}")):
            page.evaluate("window.dispatchEvent(new Event('focus'))")
        expect(page.locator(".message")).to_have_count(2 + EARLIER)


def test_back_returns_to_the_place_in_the_list(browser: Browser, tmp_path: Path, template: Path) -> None:
    folder = shutil.copytree(template, tmp_path / "log")
    # In a thread of its own, because that of the browser has a running event loop.
    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, with_decisions(folder, LOCAL_USER, 400)).result()
    with open_site(browser, tmp_path / "site", folder, lambda environment: environment.runtime()) as site, site.page() as page:
        page.goto(f"{site.url}/decisions")
        page.locator(".row").first.wait_for()
        scroller = page.locator("main.decisions")
        # Each scroll to the end loads what follows.
        while scroller.evaluate("main => main.scrollHeight") < 10_000:
            scroller.evaluate("main => main.scrollTo(0, main.scrollHeight)")
        scroller.evaluate("main => main.scrollTo(0, 5000)")
        # The rows of that place arrive in a later frame than the scroll position; until then those of the last place are there.
        # A function, because the page's Content-Security-Policy does not permit to evaluate an expression again.
        address = page.wait_for_function(
            "() => document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.closest('.row')?.getAttribute('href')"
        ).json_value()
        page.locator(f".row[href='{address}']").click()
        expect(page.locator(".facts")).to_be_visible()
        page.go_back()
        expect(page.locator(f".row[href='{address}']")).to_be_in_viewport()
        expect(scroller).to_have_js_property("scrollTop", 5000)


def zones_of(page: Page) -> list[str | None]:
    """Return a list that grows by the time zone of each message that the page sends."""
    zones: list[str | None] = []

    def note(request: Request) -> None:
        if "/chat/stream" in request.url and request.post_data_json is not None:
            zones.append(request.post_data_json.get("time_zone"))

    page.on("request", note)
    return zones


def test_a_message_names_the_zone_of_the_browser(site: Site) -> None:
    with site.page(timezone_id="Asia/Tokyo") as page:
        zones = zones_of(page)
        say(page, "add a task to call mom")
        assert zones == ["Asia/Tokyo"]


def test_a_zone_that_the_server_does_not_know_keeps_no_message_from_it(site: Site) -> None:
    with site.page(refusals=True) as page:
        page.add_init_script("Intl.DateTimeFormat.prototype.resolvedOptions = () => ({ timeZone: 'Etc/Unknown' })")
        page.reload()
        zones = zones_of(page)
        say(page, "add a task to call dad")
        expect(page.locator(".message.assistant").last).to_contain_text("call dad")
        assert zones == ["Etc/Unknown", None]
