"""A server with 200 tools and none of ours: the page has no word about tasks, and asks for none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations
from playwright.sync_api import Browser, Page, Request, expect

from graph_agent.bootstrap.runtime import Runtime
from graph_agent.chat.service import ChatService
from graph_agent.llm.scripted import ScriptedAdapter
from graph_agent.models.llm import LLMResponse
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.signature import Signer
from graph_agent.question.confirmations import ConfirmationStore
from graph_agent.record.writer import DatabaseAuditWriter
from graph_agent.testing import says
from graph_agent.tools.executor import McpToolExecutor
from graph_agent.turn.engine import LLMAgentEngine
from tests.chat.environment import Environment
from tests.page.screenshots import say
from tests.page.site import Site, open_site
from tests.scripted_turns import calls, grouped

TOOLS = 200
REFUND = ("refund", {"order": "A-17", "amount": 1200})
SCRIPT = (calls(REFUND), says("There are no further orders."), calls(("read_report_9", {}), ("refund", {})))


def shop() -> MCPServer:
    """A third-party server: one tool that changes something, and many that read."""
    server = MCPServer("shop", log_level="ERROR")

    @server.tool(title="Refund an order")
    async def refund(order: str, amount: int) -> str:
        return f"refunded {order}: {amount}"

    for number in range(1, TOOLS):

        async def read(number: int = number) -> str:
            return f"report {number}"

        reads = ToolAnnotations(read_only_hint=True)
        server.add_tool(read, f"read_report_{number}", f"Read report {number}", f"Reads report {number}.", reads)
    return server


def constitution() -> str:
    reading = "\n".join(f"- read_report_{number}: Read report {number} (reads)" for number in range(1, TOOLS))
    refund = "- refund: Refund an order (requires confirmation)"
    return f"# Shop desk\n\nYou help with orders.\n\n## Available Tools\n{refund}\n{reading}\n"


def shop_runtime(
    environment: Environment, script: Sequence[LLMResponse] = SCRIPT, conditions: ConditionsFile | None = None
) -> Runtime:
    model = ScriptedAdapter(list(script))
    tools = McpToolExecutor(shop(), trusted=False)
    engine = LLMAgentEngine(
        model,
        tools,
        constitution(),
        max_iterations=1,
        **grouped(
            audit=DatabaseAuditWriter(environment.database, clock=environment.clock),
            clock=environment.clock,
            signer=Signer(b"a key for tests only"),
            confirmations=ConfirmationStore(environment.database),
            conditions=conditions,
        ),
    )
    environment.engines.append(engine)
    chat = ChatService(engine, clock=environment.clock, turns_per_minute=1000)
    other: Any = tools
    return dataclasses.replace(environment.runtime(), tools=other, engine=engine, chat=chat, tasks=None)


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory, template: Path) -> Iterator[Site]:
    with open_site(browser, tmp_path_factory.mktemp("site"), template, shop_runtime) as site:
        yield site


def words(page: Page) -> str:
    return page.locator("body").inner_text().lower()


def test_the_card_says_which_value_is_not_the_users(browser: Browser, tmp_path: Path, template: Path) -> None:
    rules = ConditionsFile(
        "permit (principal, action, resource);\n"
        'forbid (principal, action == Action::"refund", resource)\n'
        'when { context.source.amount.contains("model") } unless { context.confirmed };'
    )
    with (
        open_site(browser, tmp_path, template, partial(shop_runtime, script=SCRIPT[:1], conditions=rules)) as site,
        site.page() as page,
    ):
        page.goto(f"{site.url}/chat")
        say(page, "refund order A-17")
        expect(page.locator(".card .notice").first).to_have_text("amount 1200 is not from you: the model wrote it.")


def test_the_page_speaks_of_the_server_that_it_has(site: Site) -> None:
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    with site.page() as page:
        page.on("request", note)
        page.goto(f"{site.url}/chat")
        expect(page.locator(".welcome")).to_contain_text("Shop desk")
        expect(page.locator(".examples button")).to_have_text(["Read report 1", "what can you do?"])
        assert "task" not in words(page)
        say(page, "refund order A-17")
        expect(page.locator(".card .sentence")).to_have_text("Refund an order")
        expect(page.locator(".card .change dl")).to_have_text("Amount1200OrderA-17")
        expect(page.locator(".card details dl")).to_be_hidden()
        expect(page.locator(".progress-text").last).to_contain_text("asked first")
        assert "task" not in words(page)
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator(".card")).to_have_attribute("data-state", "done")
        expect(page.locator(".card .added")).to_contain_text("refunded A-17: 1200")
        expect(page.locator(".message.user")).to_have_count(1)
        say(page, "is there another one?")
        # One round only: the reply at the cap is one of code, and the path is not green.
        say(page, "read report nine and refund everything")
        expect(page.locator(".message.assistant > .notice")).to_contain_text("too complex")
        expect(page.locator(".notice", has_text="Not done")).to_contain_text("refund an order")
        expect(page.locator(".machine")).to_have_class("machine cap")
        page.get_by_role("link", name="Decisions", exact=True).click()
        rows = page.locator(".row")
        expect(rows).to_have_count(3)
        expect(rows.nth(2)).to_contain_text("Refund an order (amount 1200, order 'A-17')")
        expect(rows.nth(2).locator(".outcome")).to_have_text("done")
        assert "task" not in words(page)
        expect(page.get_by_label("Intent")).to_have_count(0)
        page.get_by_role("link", name="Behavior").click()
        page.locator(".chart").first.wait_for()
        expect(page.get_by_role("heading", name="Intents")).to_have_count(0)
    assert not [url for url in asked if "/api/tasks" in url]


def test_the_call_of_a_question_that_does_not_show_all_of_it_is_unfolded(
    browser: Browser, tmp_path: Path, template: Path
) -> None:
    order = "x" * 4_001 + " the end"
    # JavaScript would round this number.
    script = [calls(("refund", {"order": order, "amount": 2**53 + 1}))]
    site = open_site(browser, tmp_path, template, lambda environment: shop_runtime(environment, script))
    with site as shop, shop.page() as page:
        say(page, "refund it")
        expect(page.locator(".card .change")).not_to_contain_text("the end")
        exact = page.locator(".card details dd")
        expect(exact.last).to_contain_text("the end")
        expect(exact.nth(1)).to_have_text(str(2**53 + 1))
        page.get_by_role("button", name="Confirm").click()
        expect(page.locator(".card")).to_have_attribute("data-state", "done")


def test_two_hundred_tools_have_a_search(site: Site) -> None:
    with site.page() as page:
        page.goto(f"{site.url}/help")
        tools = page.get_by_label("Tools", exact=True)
        expect(tools.locator("dt")).to_have_count(TOOLS)
        tools.get_by_label("Search the tools").fill("report 19")
        expect(tools.get_by_role("status")).to_have_text("12 of 200")
        tools.get_by_label("Search the tools").fill("refund")
        expect(tools.locator("dt")).to_have_text(["refund"])
        expect(tools.locator("dd")).to_contain_text("You are asked first.")
