"""The turn as a score: its bars are those of the record, it grows while the turn runs, and its places have links."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from graph_agent.models.record import DecisionRecord, EntryKind
from graph_agent.reply.forms import REPLY_FORMS
from tests.page.long_turn import long_turn
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.page.test_accessibility import findings

BARS = """score => [...score.querySelectorAll(".beat")].map((bar) => [
  bar.dataset.bar,
  Math.round(parseFloat(bar.style.left) * score.dataset.scale * 10) / 1000,
  Math.round(parseFloat(bar.style.width) * score.dataset.scale * 10) / 1000,
])"""
"""Each bar with its start and its length, in milliseconds, as they are drawn."""

_VERDICTS = {"permitted": "executed", "refused": "refused"}


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Site]:
    with open_site(browser, tmp_path_factory.mktemp("site"), template, long_turn) as site:
        yield site


@pytest.fixture(scope="module")
def chat(site: Site) -> str:
    """The address of the conversation with the long turn."""
    with site.page(panel=True) as page:
        say(page, "plan my week")
        page.wait_for_url(re.compile("/chat/.+"))
        return str(page.evaluate("location.pathname"))


@pytest.fixture(scope="module")
def decision(site: Site, chat: str) -> str:
    """The address of the decision about the long turn."""
    with site.page(panel=True) as page:
        page.goto(f"{site.url}{chat}")
        return str(page.get_by_role("link", name="Decision", exact=True).evaluate("link => link.pathname"))


def record_of(site: Site, page: Page, decision: str) -> DecisionRecord:
    exported = page.request.get(f"{site.url}/api{decision}/record").json()
    return DecisionRecord.model_validate(next(item["record"] for item in exported if item["type"] == "decision"))


def bars_of(record: DecisionRecord) -> list[tuple[str, float, float]]:
    """Return the bars that a record asks for: their places, and start and length within their rounds in milliseconds."""
    bars: list[tuple[str, float, float]] = []
    models = iter(entry for entry in record.entries if entry.kind is EntryKind.MODEL)
    calls = iter(record.invocations)
    ends = [0, *record.state_ends_us]
    number, begin, batch = 0, 0.0, 0
    for state, start, end in zip(record.states, ends, ends[1:], strict=False):
        if state == "INVOKE_LLM":
            begin = 0.0 if number == 0 else start / 1000
            number += 1
        lane, at = f"round{max(1, number)}.", start / 1000 - begin
        bars.append((lane + state.lower(), at, (end - start) / 1000))
        if state == "INVOKE_LLM":
            entry = next(models)
            batch = sum(call["name"] not in REPLY_FORMS for call in entry.result["function_calls"] or [])
            bars.append((f"{lane}model", at, entry.ms))
        for _ in range(batch if state == "EXECUTE_TOOLS" else 0):
            call = next(calls)
            bars.append((f"{lane}call{call.sequence}", at, call.duration_ms))
            at += call.duration_ms
    assert (next(models, None), next(calls, None)) == (None, None)
    return bars


def test_each_bar_is_that_of_the_record(site: Site, chat: str, decision: str) -> None:
    with site.page() as page:
        page.goto(f"{site.url}{decision}")
        expect(page.locator(".lane")).to_have_count(5)
        record = record_of(site, page, decision)
        assert len(record.invocations) == 12
        expected = [
            (place, pytest.approx(start, abs=0.01), pytest.approx(ms, abs=0.01)) for place, start, ms in bars_of(record)
        ]
        score = page.locator(".score")
        assert [tuple(bar) for bar in score.evaluate(BARS)] == expected
        assert len(expected) == len(record.states) + 5 + 12
        notes = page.locator(".note-item[id*=call]")
        shown: list[Any] = []
        for index in range(12):
            notes.nth(index).get_by_role("button").click()
            facts = notes.nth(index).locator(".note-body dl").inner_text().split("\n")
            shown.append({facts[n].strip(): facts[n + 1].strip() for n in range(0, len(facts) - 1, 2)})
        assert [_VERDICTS[one["verdict"]] for one in shown] == [call.disposition for call in record.invocations]
        states = {True: "done", False: "unknown"}
        changes = [call for call in record.invocations if call.disposition == "executed" and call.tool_name != "list_tasks"]
        assert [one["operation"] for one in shown if "operation" in one] == [states[call.success] for call in changes]
        badge = page.locator("[data-state=EXECUTE_TOOLS] .count")
        assert badge.locator("[data-sign]").evaluate_all("signs => signs.map(({ dataset }) => dataset.sign)") == [
            "done",
            "failed",
            "unknown",
        ]
        assert badge.locator("text").all_text_contents() == ["9", "2", "1"]
        expect(page.locator("[data-state=CHECK_RESPONSE] .count")).to_have_text("5×")
        expect(page.locator(".view-title .verdict")).to_have_text("2 calls refused")
        expect(page.locator(".note-reason")).to_have_text([call.error_message or "" for call in record.invocations[-2:]])
        expect(page.locator(".lane-title .quiet").first).to_have_text("1.5 s · 400 tokens")
        page.goto(f"{site.url}{chat}")
        expect(page.locator(".lane")).to_have_count(5)
        assert [tuple(bar) for bar in score.evaluate(BARS)] == expected


def test_a_link_leads_to_a_call_a_state_and_a_step(site: Site, decision: str) -> None:
    with site.page() as page:
        page.goto(f"{site.url}{decision}#round2.call4")
        expect(page.locator(".note-body")).to_contain_text("book a table")
        expect(page.locator(".beat.selected")).to_have_attribute("data-bar", "round2.call4")
        page.locator("[data-state=CHECK_ITERATIONS]").click()
        expect(page).to_have_url(f"{site.url}{decision}#CHECK_ITERATIONS")
        page.get_by_label("Step", exact=True).fill("3")
        expect(page).to_have_url(f"{site.url}{decision}?step=3#CHECK_ITERATIONS")
        page.reload()
        expect(page.locator("[data-state=CHECK_RESPONSE]")).to_have_attribute("data-condition", "running")
        expect(page.locator("[data-state=CHECK_ITERATIONS]")).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".beat:not(.ahead)")).to_have_count(4)
        expect(page.locator(".visit")).to_have_count(5)


@pytest.mark.parametrize(("size", "scheme"), [((320, 256), "light"), ((320, 568), "dark"), ((1024, 760), "light")])
def test_the_score_fits_and_has_no_barrier(site: Site, chat: str, decision: str, scheme: Any, size: tuple[int, int]) -> None:
    width, height = size
    with site.page(viewport={"width": width, "height": height}, color_scheme=scheme, reduced_motion="reduce") as page:
        for view in (f"{decision}#round5.call12", chat):
            page.goto(f"{site.url}{view}")
            page.locator(".message, .columns").first.wait_for()
            if page.locator(".panel-toggle").is_visible():
                page.locator(".panel-toggle").click()
            page.locator(".lane").nth(4).wait_for()
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert findings(page) == []


def test_the_score_grows_in_every_tab_while_the_turn_runs(browser: Browser, tmp_path: Path, template: Path) -> None:
    gate = threading.Semaphore(0)
    with (
        open_site(browser, tmp_path, template, lambda environment: long_turn(environment, gate)) as site,
        site.page(panel=True) as page,
    ):
        page.get_by_label("Message", exact=True).fill("plan my week")
        page.keyboard.press("Enter")
        running = page.locator(".note-item.running")
        expect(running).to_contain_text("model")
        expect(page.locator("[data-state=INVOKE_LLM] .count")).to_have_text(re.compile(r"^(\d+ ms|\d+\.\d s)$"))
        before = page.locator(".score").evaluate("score => Number(score.dataset.scale)")
        page.wait_for_function("before => Number(document.querySelector('.score').dataset.scale) > before", arg=before)
        gate.release()
        expect(page.locator(".begun .receipt")).to_have_text(["Add task 'buy bread'", "Add task 'call mom'"])
        expect(page.locator(".begun .note-item .quiet")).to_have_text(["", "buy bread", "call mom"])
        other = page.context.new_page()
        other.goto(f"{site.url}/decisions")
        other.locator(".row").first.click()
        for tab in (page, other):
            expect(tab.locator(".lane")).to_have_count(2)
            expect(tab.locator(".lane").nth(0).locator(".notes .verdict")).to_have_text(["done", "done"])
            expect(tab.locator(".lane").nth(1).locator(".note-item.running")).to_contain_text("model")
        gate.release(4)
        for tab in (page, other):
            expect(tab.locator(".lane")).to_have_count(5)
            expect(tab.locator(".note-item.running")).to_have_count(0)
