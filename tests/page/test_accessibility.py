"""axe-core finds nothing to report on any view, in both color schemes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.screenshots import ASKS_BEFORE_ADDING, edit_constitution, say
from tests.page.site import Site

AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"


def findings(page: Page) -> list[Any]:
    """Return what axe-core reports: rule, and the HTML of each element."""
    # Animations end first: a half transparent text has not its final contrast.
    page.evaluate("Promise.all(document.getAnimations().map(one => (one.finish(), one.finished)).filter(Boolean))")
    page.evaluate(AXE.read_text())
    report = page.evaluate("axe.run({ resultTypes: ['violations'], elementRef: false, selectors: false })")
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in report["violations"]]


# At 320 px, test_small_screens looks for barriers in every view.
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_a_barrier(site: Site, scheme: str) -> None:
    with site.page(color_scheme=scheme, reduced_motion="reduce") as page:
        page.locator(".examples button").first.wait_for()
        found = {"welcome": findings(page)}
        say(page, "add a task to call mom")
        say(page, "delete the call mom task")
        found["question"] = findings(page)
        page.locator(".panel-toggle").click()
        page.locator("[data-state=EXECUTE_TOOLS]").click()
        page.get_by_label("Tasks", exact=True).locator("li").wait_for()
        found["chat"] = findings(page)
        page.get_by_role("link", name="Inbox 1 question waits").click()
        page.get_by_role("button", name="Confirm").wait_for()
        found["inbox"] = findings(page)
        page.go_back()
        decision = page.locator(".message footer a").last.get_attribute("href")
        page.goto(f"{site.url}/decisions")
        page.locator(".row").first.wait_for()
        found["decisions"] = findings(page)
        page.goto(f"{site.url}{decision}")
        page.locator(".notes button", has_text="delete task").click()
        page.locator("[data-state=BUILD_DECISION][data-condition=visited]").wait_for()
        found["decision"] = findings(page)
        page.goto(f"{site.url}{decision}/rules")
        page.locator(".rules-text").first.wait_for()
        found["rules of a decision"] = findings(page)
        page.goto(f"{site.url}/lab")
        edit_constitution(page, *ASKS_BEFORE_ADDING)
        page.get_by_label("update_task: add a condition").select_option("not at night")
        page.get_by_role("button", name="runs → asks").click()
        page.locator(".possible li").first.wait_for()
        found["lab"] = findings(page)
        page.locator(".what-if").click()
        page.locator(".verdict-line.different").wait_for()
        page.locator(".state-rows button", has_text="execute tools").click()
        found["one replay"] = findings(page)
        page.get_by_role("link", name="Behavior").click()
        page.locator(".chart").nth(3).wait_for()
        page.get_by_role("button", name="Verify the record").click()
        expect(page.get_by_label("Verification").locator(".verdict-line")).to_be_visible()
        found["behavior"] = findings(page)
        page.get_by_role("button", name="local").click()
        found["account"] = findings(page)
        page.get_by_role("link", name="What do the words mean?").click()
        expect(page.locator("#account")).to_be_hidden()
        page.get_by_role("heading", name="Words").wait_for()
        found["help"] = findings(page)
    assert found == {view: [] for view in found}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_card_has_a_barrier_after_its_answer(site: Site, scheme: str) -> None:
    with site.page(color_scheme=scheme, reduced_motion="reduce", viewport={"width": 390, "height": 780}) as page:
        for task in ("buy bread", "buy milk"):
            say(page, f"add a task to {task}")
        say(page, "delete the buy bread task and the buy milk task")
        say(page, "show my tasks")
        cards = page.locator(".card")
        expect(cards.last).to_have_attribute("data-state", "set_aside")
        for button, state in (("Decline", "declined"), ("Confirm", "done")):
            say(page, "delete the buy bread task and the buy milk task")
            page.get_by_role("button", name=button).click()
            expect(cards.last).to_have_attribute("data-state", state)
        found = {"cards": findings(page)}
        page.goto(f"{site.url}/inbox")
        page.get_by_role("button", name="Ended").click()
        page.locator(".waiting .card.closed").first.wait_for()
        found["questions that have ended"] = findings(page)
    assert found == {view: [] for view in found}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_sign_in_and_an_unknown_address_have_no_barrier(site: Site, scheme: str) -> None:
    with site.context(refusals=True, color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(f"{site.url}/chat")
        expect(page.get_by_role("heading", name="Open the link from your terminal")).to_be_visible()
        assert findings(page) == []
        page.goto(site.link)
        page.goto(f"{site.url}/nowhere")
        page.get_by_role("heading", name="Not found").wait_for()
        assert findings(page) == []
