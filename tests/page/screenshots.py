"""`make screenshots`: take the pictures of the page that README.md and docs/page.md show."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from graph_agent.bootstrap import LOCAL_USER
from graph_agent.bootstrap.runtime import Runtime
from tests.chat.environment import Environment, migrated
from tests.page.history import KEY, with_history
from tests.page.site import Site, chromium, open_site

SHOWN = {"chat", "decision", "lab", "replay", "behavior"}
IMAGES = Path(__file__).parents[2] / "docs" / "images"
ASKS_BEFORE_ADDING = (
    '- add_task: "Add task[ {description}]"',
    '- add_task: "Add task[ {description}]" (requires confirmation)',
)
"""A line of the constitution, and the line that replaces it."""
LONG_TASK = "write the long letter to the landlord about the heating, the stairs, the broken lamp and the noise on Saturdays"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1360, "height": 800}}
LAPTOP: dict[str, Any] = {"viewport": {"width": 1024, "height": 760}}
TABLET: dict[str, Any] = {"viewport": {"width": 768, "height": 1024}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 2}


def picture(page: Page, folder: Path, name: str, suffix: str) -> None:
    """Take a picture; into the documentation only those that it shows."""
    if folder != IMAGES or name in SHOWN:
        page.screenshot(path=folder / f"{name}{suffix}.png")


def say(page: Page, text: str) -> None:
    """Send a message and wait for its answer."""
    answers = page.locator(".message.assistant")
    before = answers.count()
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_role("button", name="Send").click()
    expect(answers).to_have_count(before + 1)
    expect(page.locator(".working")).to_have_count(0)


def take(site: Site, folder: Path, *, scheme: str, size: dict[str, Any], suffix: str) -> None:
    with site.page(color_scheme=scheme, **size) as page:
        page.get_by_label("Message", exact=True).wait_for()
        picture(page, folder, "welcome", suffix)
        for text in ("add a task to buy groceries", "add a task to call mom"):
            page.goto(f"{site.url}/chat")
            say(page, text)
        say(page, "show my tasks")
        say(page, "delete the groceries task")
        picture(page, folder, "chat", suffix)
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator(".card.closed")).to_have_count(1)
        page.locator(".panel-toggle").click()
        page.locator("[data-state=EXECUTE_TOOLS]").click()
        picture(page, folder, "details", suffix)
        say(page, "what's the weather?")
        for task in ("buy bread", "water the plants", "call the bank", "book a table", "pay the rent", "fix the tap"):
            say(page, f"add a task to {task}")
        say(page, "mark all as done")
        picture(page, folder, "refused", suffix)
        say(page, f"add a task to {LONG_TASK}")
        say(page, "delete the long letter task")
        picture(page, folder, "long", suffix)
        page.get_by_role("button", name="Decline").click()
        expect(page.locator(".card").last).to_have_attribute("data-state", "declined")
        say(page, "delete the fix the tap task")
        page.get_by_role("navigation", name="Views").get_by_role("link", name="Inbox").click()
        page.locator("main .card").first.wait_for()
        picture(page, folder, "inbox", suffix)
        page.get_by_role("link", name="Decisions", exact=True).click()
        page.locator(".row").first.wait_for()
        picture(page, folder, "decisions", suffix)
        page.get_by_title("Account and help").click()
        picture(page, folder, "account", suffix)
        page.get_by_role("link", name="What do the words mean?").click()
        picture(page, folder, "help", suffix)
        page.go_back()
        page.locator(".row").first.wait_for()
        page.locator(".row", has_text="Delete task 'buy groceries'").first.click()
        page.locator(".lane").first.wait_for()
        page.locator("[data-state=BUILD_DECISION][data-condition=visited]").wait_for()
        picture(page, folder, "decision", suffix)
        take_lab(page, folder, suffix)
    with site.context(color_scheme=scheme, refusals=True, **size) as context:
        page = context.new_page()
        page.goto(f"{site.url}/chat")
        page.get_by_role("heading", name="Open the link").wait_for()
        picture(page, folder, "signed-out", suffix)
        page.goto(site.link)
        page.goto(f"{site.url}/nowhere")
        page.get_by_role("heading", name="Not found").wait_for()
        picture(page, folder, "not-found", suffix)


def edit_constitution(page: Page, line: str, replacement: str) -> None:
    editor = page.get_by_label("Constitution")
    text = editor.input_value()
    assert line in text
    editor.fill(text.replace(line, replacement))


def take_lab(page: Page, folder: Path, suffix: str) -> None:
    """Tighten the rules in the lab, and look at a decision that they change."""
    page.get_by_role("link", name="Try other rules").click()
    page.locator(".verdict-line.same").wait_for()
    picture(page, folder, "replay-same", suffix)
    page.get_by_role("link", name="Lab", exact=True).click()
    page.get_by_label("add_task: verdict").select_option("asks")
    page.get_by_label("complete_task: calls per message").fill("1")
    page.get_by_label("update_task: add a condition").select_option("the second one needs a yes")
    expect(page.locator(".flow-sentence")).to_have_text(re.compile(r"^runs → asks: \d+, .*same: \d+$"))
    page.locator(".possible li").first.wait_for()
    picture(page, folder, "lab", suffix)
    page.get_by_role("button", name=re.compile("runs → asks")).click()
    page.locator(".what-if").first.scroll_into_view_if_needed()
    picture(page, folder, "lab-band", suffix)
    page.locator(".what-if", has_text="call mom").click()
    page.locator(".verdict-line.different").wait_for()
    picture(page, folder, "replay", suffix)


def take_behavior(page: Page, folder: Path, suffix: str) -> None:
    page.get_by_role("link", name="Behavior", exact=True).click()
    page.get_by_role("button", name="Week").click()
    page.get_by_role("button", name="Verify the record").click()
    page.get_by_label("Verification").locator(".verdict-line").wait_for()
    page.locator(".chart").nth(3).wait_for()
    picture(page, folder, "behavior", suffix)


def with_key(environment: Environment) -> Runtime:
    environment.record_key = KEY
    return environment.runtime()


def main() -> None:
    """Take the pictures; with a folder as argument all variants, for looking at them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as name:
        template = asyncio.run(migrated(Path(name) / "template"))
        history = asyncio.run(with_history(asyncio.run(migrated(Path(name) / "history")), LOCAL_USER))
        with chromium() as browser:
            variants = [
                ("light", DESKTOP, ""),
                ("dark", DESKTOP, "-dark"),
                ("light", LAPTOP, "-1024"),
                ("light", TABLET, "-768"),
                ("dark", TABLET, "-768-dark"),
                ("light", PHONE, "-phone"),
                ("dark", PHONE, "-phone-dark"),
            ]
            for scheme, size, suffix in variants if folder else variants[:1]:
                with open_site(browser, Path(name) / f"site{suffix}", template, with_key) as site:
                    take(site, folder or IMAGES, scheme=scheme, size=size, suffix=suffix)
                with (
                    open_site(browser, Path(name) / f"seen{suffix}", history, with_key) as site,
                    site.page(color_scheme=scheme, **size) as page,
                ):
                    take_behavior(page, folder or IMAGES, suffix)


if __name__ == "__main__":
    main()
