"""The marker `(undone by ...)` and the facts that it restores from: the grammar, and which lines are refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from graph_agent.errors import ConstitutionError, ToolGrantError
from graph_agent.models.facts import FactRead
from graph_agent.models.tools import ToolResult
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import BeforeRead, Constitution, UndoneBy, Where
from graph_agent.policy.undo import NotUndoableError, filled, in_words, with_restored
from graph_agent.testing import OrderDesk
from tests.desk import UNDOABLE

ORDER = "order: get_order(order_id = arguments.order_id)"
UNDO = "(undone by set_address(order_id = arguments.order_id, address = order.address) for 30 minutes)"


def policy(line: str, fact: str = ORDER, **more: str) -> CompiledPolicy:
    lines = {"get_order": "Get order (reads)", "set_address": f"Move it (without confirmation) {line}", **more}
    tools = [f"- {name}: {rest}" for name, rest in lines.items()]
    text = "\n".join(["## Available Tools", *tools, "## Facts", f"- {fact}"])
    desk = OrderDesk()
    traits = {name: desk.traits(name) for name in desk.get_available_tools()}
    return compile_policy(Constitution.parse(text), desk.declarations(), traits)


def test_a_line_says_what_undoes_a_change_and_for_how_long() -> None:
    (_, move, note, *_) = Constitution.parse(UNDOABLE).grants
    order = ("order_id", Where("arguments", "order_id"))
    assert move.undone_by == UndoneBy(
        "set_address",
        (order, ("address", Where("order", "address.street"))),
        timedelta(minutes=30),
        BeforeRead("get_order", (("order_id", "order_id"),)),
    )
    assert move.undone_by.restored == ("address.street",)
    assert note.undone_by == UndoneBy("delete_note", (("note_id", Where("result", "note.id")),), timedelta(hours=2))


@pytest.mark.parametrize(
    ("number", "words"), [(30, "30 minutes"), (1, "1 minute"), (60, "1 hour"), (90, "90 minutes"), (2880, "2 days")]
)
def test_a_time_is_named_in_its_largest_unit(number: int, words: str) -> None:
    assert in_words(timedelta(minutes=number)) == words


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("(undone by set_address(order_id = arguments.order_id))", "looks like a misspelt or misplaced marker"),
        ("(undone by set_address() for 30 minutes)", "looks like a misspelt or misplaced marker"),
        ("(undone by set_address(order_id = order_id) for 30 minutes)", "names the fact 'order_id', which no line of"),
        ("(undone by set_address(order_id = arguments) for 30 minutes)", "'arguments' is no place of a value"),
        ("(undone by set_address(order_id = arguments.order_id) for 0 minutes)", "looks like a misspelt"),
        ("(undone by set_address(order_id = arguments.order_id) for ever)", "looks like a misspelt or misplaced marker"),
        ("(undone by set_address(order_id = arguments.order_id) for 30 seconds)", "looks like a misspelt"),
        (f"{UNDO} {UNDO}", "is repeated or contradicts another one"),
        (UNDO.replace("order.address", "order"), "restores one value, and 'order' is none"),
        (
            "(undone by set_address(order_id = arguments.order_id, order_id = result.id) for 1 day)",
            "the parameter 'order_id' is filled twice",
        ),
    ],
)
def test_a_marker_with_an_error_is_refused_with_its_line(line: str, why: str) -> None:
    with pytest.raises(ConstitutionError, match="line 3") as refused:
        policy(line)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        ("order: last get_order", "that is not what one read of a call finds"),
        ("order: count get_order(order_id = arguments.order_id) $.lines[*]", "that is not what one read of a call finds"),
        ("order: get_order(order_id = arguments.orders[*].id) $.address", "that is not what one read of a call finds"),
        ("order: get_order(order_id = arguments.order_id) $.lines[*]", "restores one value, and 'order.address' is none"),
        ("order: get_order(order_id = principal)", "whose read needs more than arguments of the call"),
        ("order: get_order(order_id = arguments.order.id)", "whose read needs more than arguments of the call"),
    ],
)
def test_an_undo_restores_from_one_read_of_the_call(fact: str, why: str) -> None:
    with pytest.raises(ConstitutionError, match="line 3") as refused:
        policy(UNDO, fact)
    assert why in str(refused.value)


def test_a_read_has_no_undo() -> None:
    with pytest.raises(ConstitutionError, match=r"a line with \(reads\) has none of"):
        Constitution.parse("## Available Tools\n- get_order: Get (reads) (undone by a(b = arguments.c) for 1 day)")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("(undone by cancel(order_id = arguments.order_id) for 1 day)", "has (undone by ...), and cancel is not granted"),
        ("(undone by get_order(order_id = arguments.order_id) for 1 day)", "has (undone by get_order ...), which only reads"),
        (
            "(undone by set_address(order_id = arguments.order_id, street = arguments.address) for 1 day)",
            "which has no parameter 'street'",
        ),
        ("(undone by set_address(order_id = arguments.order_id) for 1 day)", "whose parameter 'address' is not filled"),
        (
            "(undone by set_address(order_id = arguments.id, address = arguments.address) for 1 day)",
            "which reads 'id', and that is no argument of the call",
        ),
    ],
)
def test_a_line_that_does_not_fit_the_tools_is_refused_with_one_sentence(line: str, why: str) -> None:
    with pytest.raises(ToolGrantError) as refused:
        policy(line)
    assert str(refused.value).startswith("the tool 'set_address' ")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        ("order: peek(order_id = arguments.order_id)", "has (undone by ...), and peek is not granted"),
        ("order: get_order(order_id = arguments.id)", "which needs 'id', and that is no argument of the call"),
        ("order: get_order(id = arguments.order_id)", "which has no parameter 'id'"),
        ("order: set_address(order_id = arguments.order_id)", "which reads set_address, which may change something"),
    ],
)
def test_a_fact_that_does_not_fit_the_tools_is_refused_with_one_sentence(fact: str, why: str) -> None:
    with pytest.raises(ToolGrantError) as refused:
        policy(UNDO, fact)
    assert str(refused.value).startswith("the tool 'set_address' ")
    assert why in str(refused.value)


def test_a_tool_that_is_undone_by_itself_and_asks_is_allowed() -> None:
    assert policy(UNDO).rules["set_address"].grant.undone_by is not None


def test_a_value_that_is_missing_or_null_is_not_guessed() -> None:
    declared = UndoneBy("set_address", (("address", Where("result", "lines[1].street")),), timedelta(days=1))
    known = ToolResult(success=True, data={"lines": [{"street": "Elm 1"}, {"street": "Oak 2"}]})
    assert filled(declared, {}, known, {}) == {"address": "Oak 2"}
    unknown: list[dict[str, Any]] = [{}, {"lines": []}, {"lines": [{}, {"street": None}]}, {"lines": {"street": "Elm 1"}}]
    for data in unknown:
        with pytest.raises(NotUndoableError, match=r"result.lines\[1\].street is not known"):
            filled(declared, {}, ToolResult(success=True, data=data), {})
    result = ToolResult(success=True, data={"a": 1, "b": {"c": None}})
    read = with_restored(FactRead(tool="get", arguments={}), ["a", "b.c"], result)
    assert (read.values, read.failed) == ({"$.a": 1}, {"$.b.c": "it is missing"})
