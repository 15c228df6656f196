"""`make screenshots`: take the pictures of the page that README.md and docs/page.md show."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.chat.environment import migrated
from tests.page.site import Site, chromium, open_site

IMAGES = Path(__file__).parents[2] / "docs" / "images"
DESKTOP: dict[str, Any] = {"viewport": {"width": 1360, "height": 800}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 780}, "device_scale_factor": 2}


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
        page.screenshot(path=folder / f"welcome{suffix}.png")
        for text in ("add a task to buy groceries", "add a task to call mom"):
            page.goto(f"{site.url}/chat")
            say(page, text)
        say(page, "show my tasks")
        say(page, "delete the groceries task")
        page.screenshot(path=folder / f"chat{suffix}.png")
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator(".card.closed")).to_have_count(1)
        if page.locator(".panel-toggle").is_visible():
            page.locator(".panel-toggle").click()
        page.locator("[data-state=EXECUTE_TOOLS]").click()
        page.screenshot(path=folder / f"details{suffix}.png")
        say(page, "what's the weather?")
        page.get_by_role("link", name="Decisions", exact=True).click()
        page.locator(".row").first.wait_for()
        page.screenshot(path=folder / f"decisions{suffix}.png")
        page.locator(".row", has_text="delete the groceries task").first.click()
        page.locator(".call").first.wait_for()
        page.locator("[data-state=BUILD_DECISION][data-condition=visited]").wait_for()
        page.screenshot(path=folder / f"decision{suffix}.png")


def main() -> None:
    """Take the pictures; with a folder as argument all variants, for looking at them."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as name:
        template = asyncio.run(migrated(Path(name) / "template"))
        with chromium() as browser:
            variants = [("light", DESKTOP, ""), ("dark", DESKTOP, "-dark"), ("light", PHONE, "-phone")]
            for scheme, size, suffix in variants if folder else variants[:1]:
                with open_site(
                    browser, Path(name) / f"site{suffix}", template, lambda environment: environment.runtime()
                ) as site:
                    take(site, folder or IMAGES, scheme=scheme, size=size, suffix=suffix)


if __name__ == "__main__":
    main()
