"""The file of a proof plays the turn from its record, without a network, and shows what other rules would have decided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import expect

from graph_agent.api.static_page import read_page
from graph_agent.models.record import DecisionRecord
from graph_agent.policy.constitution import Constitution
from tests.cli.conftest import Cli
from tests.page.screenshots import ASKS_BEFORE_ADDING
from tests.page.site import CHROMIUM, WAIT_MS, chromium
from tests.page.test_score import BARS, bars_of


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None or read_page() is None, reason="there is no Chromium, or the page is not built")
def test_the_saved_file_plays_the_turn_and_shows_the_difference_to_other_rules(cli: Cli, tmp_path: Path) -> None:
    decision = cli("ask", "add a task to call mom", "--json").json()["decision_id"]
    stricter = tmp_path / "stricter.md"
    stricter.write_text(Constitution.load().text.replace(*ASKS_BEFORE_ADDING))
    folder = tmp_path / "proof"
    exported = cli("log", "export", "--proof", decision, "--constitution", str(stricter), "--out", str(folder))
    assert exported.code == 0, exported.err
    record = DecisionRecord.model_validate_json(json.loads((folder / "decision.json").read_text())["record"])
    with chromium() as browser:
        page = browser.new_context(offline=True, viewport={"width": 320, "height": 640}).new_page()
        page.set_default_timeout(WAIT_MS)
        problems: list[str] = []
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto((folder / "decision.html").as_uri())
        bars = [tuple(bar) for bar in page.locator(".score").evaluate(BARS)]
        assert bars == [(place, pytest.approx(at, abs=0.01), pytest.approx(ms, abs=0.01)) for place, at, ms in bars_of(record)]
        expect(page.locator(".verdict-line")).to_have_text(
            "The path is the same up to step 4; then build decision instead of append results."
        )
        expect(page.locator("tr", has_text="decision type").locator("td").last).to_have_text("REQUEST_CONFIRMATION")
        expect(page.locator(".difference")).to_contain_text("This part is not proved")
        expect(page.locator("#source-list")).to_have_text("add_task: description from your words")
        page.get_by_label("Step", exact=True).fill("2")
        expect(page.locator("[data-state=INVOKE_LLM]")).to_have_attribute("data-condition", "running")
        page.get_by_role("button", name="Play").click()
        expect(page.locator("[data-state=BUILD_DECISION]")).to_have_attribute("data-condition", "visited")
        page.locator(".notes button", has_text="add task").click()
        expect(page.locator(".note-body")).to_contain_text("call mom")
        assert page.evaluate("document.documentElement.scrollWidth") == 320
        # The film of a record that is not proved is not shown.
        page.fill("#trusted-keys", "")
        expect(page.locator("#verdict")).to_have_text("Not proved")
        expect(page.locator("#film")).to_be_hidden()
        expect(page.locator("#sources")).to_be_hidden()
        assert problems == []


def test_other_rules_belong_to_the_proof_of_one_decision(cli: Cli, tmp_path: Path) -> None:
    wrong = cli("log", "export", "--constitution", str(tmp_path / "other.md"))
    assert (wrong.code, "--proof DECISION_ID" in wrong.err) == (2, True)
