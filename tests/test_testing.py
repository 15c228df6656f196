"""`graph_agent.testing`: the public way to test one's own tools."""

from __future__ import annotations

import pytest

from graph_agent import ConfigurationError, FunctionTools, McpToolExecutor, ServiceError, ToolResult
from graph_agent.clock import ManualClock
from graph_agent.errors import ToolErrorCode
from graph_agent.models.decision import OutcomeCategory
from graph_agent.models.llm import LLMResponse
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.testing import (
    DeskServer,
    OrderDesk,
    PlayedResult,
    PlayedTool,
    PlayedTools,
    ScriptedAdapter,
    ScriptExhaustedError,
    calls,
    open_installation,
    says,
)
from tests.permission import permitted

CONSTITUTION = "You water plants.\n\n## Available Tools\n- water: Water a plant (requires confirmation)\n"


class Plants:
    """Tools with a state, as a user's program has them."""

    def __init__(self) -> None:
        self.watered: list[tuple[str, str]] = []

    def water(self, plant: str, user_id: str) -> str:
        """Water a plant."""
        self.watered.append((plant, user_id))
        return plant


async def test_a_client_sends_messages_of_users_who_have_conversations_of_their_own() -> None:
    plants = Plants()
    model = [calls("water", plant="fern"), says("Nothing to water.")]
    async with open_installation(FunctionTools(plants.water), CONSTITUTION, model) as client:
        question = await client.send("water the fern")
        assert question.decision.pending_action is not None
        assert (await client.send("yes", user_id="bob")).reply == "Nothing to water."
        assert plants.watered == []
        done = await client.send("yes")
    assert (plants.watered, done.conversation_id) == ([("fern", "ann")], question.conversation_id)
    assert done.decision.outcome_category is OutcomeCategory.TASK_COMPLETED


async def test_each_installation_is_empty_and_its_clock_is_the_tests() -> None:
    clock = ManualClock()
    for _ in range(2):
        plants = Plants()
        model = [calls("water", plant="fern"), says("Which plant?")]
        async with open_installation(FunctionTools(plants.water), CONSTITUTION, model, clock=clock) as client:
            await client.send("water the fern")
            clock.advance(minutes=6)
            assert (await client.send("yes")).reply == "Which plant?"
        assert plants.watered == []


async def _greet_twice(*script: LLMResponse) -> None:
    async with open_installation(FunctionTools(Plants().water), CONSTITUTION, script) as client:
        await client.send("hi")
        await client.send("hi")


@pytest.mark.parametrize("answers", [1, 3], ids=["too short", "too long"])
async def test_a_script_that_does_not_fit_fails_the_test(answers: int) -> None:
    await _greet_twice(says("hi"), says("hi"))
    with pytest.raises(ScriptExhaustedError):
        await _greet_twice(*[says("hi")] * answers)


async def test_an_exception_of_the_test_is_not_hidden_by_an_unused_script() -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_installation(FunctionTools(Plants().water), CONSTITUTION, [says("hi")]):
            raise ZeroDivisionError


async def test_played_tools_give_the_results_that_they_were_given() -> None:
    tools = PlayedTools(
        [PlayedTool(name="water", traits=ToolTraits(title="Water"))],
        [PlayedResult(tool="water", arguments={"plant": "fern"}, result=ToolResult(success=True, data={"receipt": "wet"}))],
    )
    adapter = ScriptedAdapter([calls("water", plant="fern"), calls("water", plant="rose"), says("I cannot tell.")])
    async with open_installation(tools, CONSTITUTION, adapter) as client:
        await client.send("water the fern")
        assert (await client.send("yes")).decision.effects == ["Water (plant 'fern'); added: receipt 'wet'"]
        await client.send("and the rose")
        await client.send("yes")
    assert len(tools.problems) == 1


async def test_conditions_and_roles_apply() -> None:
    rules = """permit (principal, action, resource);
    @id("only gardeners water") forbid (principal, action, resource) unless { principal in Role::"gardener" };"""
    conditions, plants = ConditionsFile(rules, roles=("gardener",)), Plants()
    model = [calls("water", plant="fern"), says("You may not."), calls("water", plant="fern")]
    async with open_installation(FunctionTools(plants.water), CONSTITUTION, model, conditions=conditions) as client:
        assert (await client.send("water the fern")).decision.pending_action is None
        assert (await client.send("water the fern", roles=("gardener",))).decision.pending_action is not None


async def _open(constitution: str, conditions: str | None = None) -> None:
    async with open_installation(FunctionTools(Plants().water), constitution, [], conditions=conditions):
        pass


async def test_what_does_not_fit_together_is_refused_on_opening() -> None:
    await _open(CONSTITUTION)
    with pytest.raises(ConfigurationError):
        await _open(CONSTITUTION + "- prune: Prune a plant\n")
    with pytest.raises(ConfigurationError):
        await _open(CONSTITUTION, conditions="permit (principal, action,")


async def test_a_message_that_begins_no_turn_raises_the_error_of_the_service() -> None:
    async with open_installation(FunctionTools(Plants().water), CONSTITUTION, []) as client:
        with pytest.raises(ServiceError):
            await client.send("")


@pytest.mark.parametrize("protocol", ["in process", "over MCP"])
async def test_the_desk_changes_its_data_and_notes_its_calls(protocol: str) -> None:
    desk = OrderDesk()
    model = [
        calls("get_order", order_id="W1"),
        calls("set_address", order_id="W1", address="Ash 3"),
        says("Done."),
        calls("add_note", text="called"),
        says("Noted."),
        calls("refund", order_id="W2", amount=5),
    ]
    async with McpToolExecutor(DeskServer(desk), trusted=True) as served:
        tools = desk if protocol == "in process" else served
        async with open_installation(tools, OrderDesk.CONSTITUTION, model) as client:
            await client.send("to Ash 3")
            await client.send("a note")
            await client.send("pay it back")
            await client.send("yes")
        assert (await served.execute(permitted("get_order", {"order_id": "W9"}))).error_code is ToolErrorCode.NOT_FOUND
        desk.sent.pop()
    assert desk.made == [
        *["get_order W1", "get_order W1", "set_address W1 Ash 3", "get_order W1"],
        *["add_note called", "refund W2 5"],
    ]
    assert desk.changes == ["set_address W1 Ash 3", "add_note called", "refund W2 5"]
    assert (desk.orders["W1"]["address"], desk.notes, desk.orders["W2"]["refunded"]) == (
        {"street": "Ash 3"},
        {"n1": "called"},
        5,
    )


async def test_each_tool_of_the_desk_does_what_its_name_says() -> None:
    desk = OrderDesk()
    for tool, arguments in {
        "cancel_order": {"order_id": "W1"},
        "return_items": {"order_id": "W2", "method": "gift_1"},
        "add_note": {"text": "called"},
        "delete_note": {"note_id": "n1"},
        "send_mail": {"text": "hello"},
    }.items():
        assert desk.call(tool, arguments).success
    assert [one["status"] for one in desk.orders.values()] == ["cancelled", "returned"]
    assert (desk.notes, desk.mails) == ({}, ["hello"])
    assert desk.call("find_customer", {"mail": "bob@example.com"}).data == {"customer_id": "u2"}
    assert desk.call("get_product", {"product_id": "p9"}).error_code is ToolErrorCode.NOT_FOUND
    assert desk.call("exchange", {"order_id": "W2", "items": [{"product_id": "p1"}]}).success
    assert desk.orders["W2"]["status"] == "exchanged"


async def test_the_ledger_of_the_desk_makes_a_change_once_and_knows_its_outcome() -> None:
    desk = OrderDesk(ledger=True)
    call = permitted("refund", {"order_id": "W1", "amount": 5}, key="k")
    assert await desk.execute(call) == await desk.execute(call) == await desk.settle(call)
    assert (desk.orders["W1"]["refunded"], desk.keys) == (5, ["k"])
    never_sent = permitted("refund", {"order_id": "W1", "amount": 7}, key="other")
    assert (await desk.settle(never_sent)).error_code is ToolErrorCode.TOOL_EXECUTION_ERROR
    assert not (await desk.execute(never_sent)).success
    assert desk.orders["W1"]["refunded"] == 5
    assert (await OrderDesk().settle(call)).unknown
