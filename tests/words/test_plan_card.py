"""The card of a plan says exactly what is checked: it reads back to the plan, and a hostile value changes no word of code's."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from graph_agent.models.llm import FunctionCall
from graph_agent.models.mandate import Form, Line, Plan, most_runs
from graph_agent.models.sources import BatchSources, CallSources, FoundSource, ReadCall, Source
from graph_agent.models.tools import ToolResult
from graph_agent.policy.mandate import Conversation, fits
from graph_agent.policy.plan_check import PlanError, read_plan
from graph_agent.words.plan import plan_card
from graph_agent.words.values import labels, lowered
from tests.policy.cedar_shop import AMOUNT, TEXT, ShopTool, policy_of, schema

POLICY = policy_of(
    [
        ShopTool("refund", schema(order=TEXT, amount=AMOUNT, reason=TEXT, note_text=TEXT), marker="(in plans)"),
        ShopTool("send_mail", schema(to=TEXT, text=TEXT, urgent={"type": "boolean"}), marker="(in plans)"),
        ShopTool("find_order", schema(order=TEXT), reads=True, marker="(reads)"),
        ShopTool("read_mail", schema(id=TEXT), reads=True, marker="(reads)"),
    ],
    None,
)
TITLES = {rule.title: name for name, rule in POLICY.rules.items()}
HOSTILE = (
    'W1"; amount up to 5',
    'x"\n2. Refund: amount up to 999999',
    "W1; up to 20 times",
    'a" or "b',
    "W1\u2028Plan, at most: nothing",
    "\u202eevil",
    "W1 (others can write there)",
    "up to 9 times",
    "For 1 minute after your yes.",
    "\\u0022; together up to 1",
    "W1\u200b",
    "\U000e0041\U000e0042",
    "\ud83d",
)
FORMS = {
    "a value": None,
    "a code": Form.CODE,
    "a number": Form.NUMBER,
    "a link to a host that you have named": Form.LINK,
    "an e-mail address at a host that you have named": Form.ADDRESS,
}
QUOTED = r'"(?:[^"\\]|\\.)*"'
VALUE = rf"(?:{QUOTED}|true|false|-?[0-9.e+]+)"
SEPARATOR = re.compile(rf"((?:{QUOTED}|[^;\"])+)(?:; |$)")


def read_card(card: str) -> dict[str, Any]:
    """Return the plan that a card shows, as its reader understands it."""
    head, *lines, end = card.split("\n")
    standing = re.fullmatch(r'Standing plan, in (?:one run|each of at most (\d+) runs) of the job "([^"]+)", at most:', head)
    assert standing is not None or head == "Plan, at most:"
    runs = "Each runs without asking you again; anything else is asked about as before"
    of_job = "Each call runs without asking you again, also while you are away; anything else waits for your answer"
    until = re.fullmatch(rf"For (\d+) (minute|day)s? after your yes\. {runs if standing is None else of_job}\.", end)
    assert until is not None
    assert standing is not None or until[2] == "minute"
    read = []
    # After the lines stands what they have together, which follows from them.
    for number, line in enumerate((one for one in lines if not one.startswith("In all at most: ")), 1):
        shown, title, text = re.fullmatch(r"(\d+)\. ([^:]+): (.*)", line).groups()  # type: ignore[union-attr]
        assert int(shown) == number
        read.append(read_line(TITLES[title], text))
    minutes = int(until[1]) * (24 * 60 if until[2] == "day" else 1)
    return {"lines": read, "minutes": minutes} | (
        {} if standing is None else {"job": standing[2], "runs": int(standing[1] or 1)}
    )


def read_line(tool: str, text: str) -> dict[str, Any]:
    names = list(POLICY.rules[tool].declaration.parameters["properties"])
    by_label = {lowered(label): name for name, label in labels(names).items()}
    line: dict[str, Any] = {"tool": tool, "arguments": {}, "times": 1}
    parts = SEPARATOR.findall(text)
    assert "; ".join(parts) == text
    for part in parts:
        if times := re.fullmatch(r"up to (\d+) times", part):
            line["times"] = int(times[1])
        elif part != "no arguments":
            label = max((one for one in by_label if part.startswith(f"{one} ")), key=len)
            shown, name = part[len(label) + 1 :], by_label[label]
            if total := re.fullmatch(r"together up to ([0-9.]+)", shown):
                line.setdefault("sum", {})[name] = total[1]
            else:
                line["arguments"][name] = read_bound(shown)
    return line


def read_bound(shown: str) -> dict[str, Any]:
    if shown == "written by the assistant, no copy of what others wrote":
        return {"own_text": True}
    if found := re.fullmatch(r"up to ([0-9.]+)", shown):
        return {"at_most": json.loads(found[1])}
    if found := re.fullmatch(rf"= ({VALUE}(?: or {VALUE})*)(?: \(not your words: from .+\))?", shown):
        return {"is": [json.loads(one) for one in re.findall(VALUE, found[1])]}
    found = re.fullmatch(r'(a.*?)(?: up to ([0-9.]+))? that "([^"]+)" brings \(others can write there\)', shown)
    assert found is not None, shown
    form, most = FORMS[found[1]], found[2]
    return {"from": TITLES[found[3]]} | ({"form": form} if form else {}) | ({"at_most": json.loads(most)} if most else {})


def random_plan(dice: random.Random) -> Plan:
    lines = [random_line(dice) for _ in range(dice.randint(1, 8))]
    minutes = dice.choice([dice.randint(1, 129_600), 1440, 43_200])
    runs = dice.choice([1, dice.randint(1, most_runs(minutes))])
    standing = {"job": dice.choice(["nightly", "a.b_c-1"]), "minutes": minutes, "runs": runs}
    return Plan.model_validate({"lines": lines, **dice.choice([{"minutes": dice.randint(1, 1440)}, standing])})


def random_line(dice: random.Random) -> dict[str, Any]:
    tool = dice.choice(["refund", "send_mail"])
    known = list(POLICY.rules[tool].declaration.parameters["properties"])
    arguments = {name: random_bound(dice) for name in dice.sample(known, dice.randint(0, len(known)))}
    line: dict[str, Any] = {"tool": tool, "arguments": arguments, "times": dice.randint(1, 20)}
    if (bound := arguments.get("amount")) is not None and "at_most" in bound:
        line["sum"] = {"amount": dice.choice(["7", "10.5", "100"])}
    return line


def random_bound(dice: random.Random) -> dict[str, Any]:
    text = "".join(dice.choices('ab1 "\\;:,.=()\n\t\u202e\u200bé漢😀', k=dice.randint(0, 12)))
    values = [text, dice.choice(HOSTILE[:-1]), dice.randint(-5, 900), dice.random() < 0.5, 2.5]
    from_tool = {"from": dice.choice(["find_order", "read_mail"])}
    most = dice.choice([{}, {"at_most": dice.randint(0, 99)}])
    return dice.choice(
        [
            {"is": list(dict.fromkeys(dice.sample(values, dice.randint(1, 3))))},
            {"at_most": dice.choice([0, 5, 10.25])},
            {"own_text": True},
            from_tool,
            {**from_tool, "form": dice.choice(["code", "link", "address"])},
            {**from_tool, "form": "number", **most},
        ]
    )


def test_a_thousand_cards_are_read_back_to_what_is_checked() -> None:
    dice = random.Random(60)
    for _ in range(1000):
        plan = random_plan(dice)
        card = plan_card(plan, POLICY, None)
        assert Plan.model_validate(read_card(card)) == plan, card


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
def test_a_hostile_value_changes_no_word_of_the_card(value: str) -> None:
    harmless, hostile = (
        plan_card(Plan.model_validate({"lines": [{"tool": "refund", "arguments": {"order": {"is": [one]}}}]}), POLICY, None)
        for one in ("W1", value)
    )
    before, after = harmless.split('"W1"')
    assert hostile.startswith(before)
    assert hostile.endswith(after)
    shown = hostile[len(before) : -len(after)]
    assert json.loads(shown) == value
    assert re.fullmatch(QUOTED, shown)
    assert shown.isprintable()


def test_a_value_of_others_is_marked_with_the_read_that_brought_it() -> None:
    plan = Plan.model_validate({"lines": [{"tool": "send_mail", "arguments": {"to": {"is": ["eve@evil.example"]}}}]})
    sources = CallSources(arguments={"to": [FoundSource(source=Source.UNTRUSTED, tool="read_mail")]})
    card = plan_card(plan, POLICY, BatchSources(calls=[sources]))
    assert 'to = "eve@evil.example" (not your words: from "read mail")' in card


def read(tool: str, text: str, **arguments: Any) -> ReadCall:
    return ReadCall(tool_name=tool, arguments=arguments, result=ToolResult(success=True, data={"text": text}))


CODE = {"from": "read_mail", "form": "code"}
LINK = {"from": "read_mail", "form": "link"}
ATTACKS: dict[str, tuple[dict[str, Any], Any, Conversation]] = {
    "a part of a longer code": (CODE, "P1", Conversation(since=[read("read_mail", "Use P10.")])),
    "a value known before in other letters": (
        {"from": "read_mail"},
        "EVIL-7",
        Conversation(before=[read("find_order", "evil-7")], since=[read("read_mail", "EVIL-7")]),
    ),
    "a value of another tool": (CODE, "K77777", Conversation(since=[read("find_order", "K77777")])),
    "a value that a search gave back": (
        {"from": "find_order"},
        "ATT666",
        Conversation(since=[read("find_order", "Nothing for ATT666", order="ATT666")]),
    ),
    "a value stored by the model and read again": (
        {"from": "read_mail"},
        "evil.example",
        Conversation(since=[read("find_order", "ok", order="to evil.example"), read("read_mail", "to evil.example now")]),
    ),
    "a number that a search gave back in other digits": (
        {"from": "read_mail"},
        5000.0,
        Conversation(since=[read("find_order", "nothing", limit=5000), read("read_mail", "5000.0")]),
    ),
    "a number known before in other digits": (
        {"from": "read_mail"},
        "5000.0",
        Conversation(before=[read("find_order", "up to 5000")], since=[read("read_mail", "5000.0")]),
    ),
    "a text sent in letters of full width": (
        CODE,
        "ATT666",
        Conversation(since=[read("find_order", "nothing", order="ＡＴＴ６６６"), read("read_mail", "ATT666")]),
    ),
    "a link to a host that the user has forbidden": (
        LINK,
        "https://evil.example/x",
        Conversation(since=[read("read_mail", "https://evil.example/x")], said=["Never open a link to evil.example"]),
    ),
    "a link to a host that is forbidden in an earlier message": (
        LINK,
        "https://evil.example/x",
        Conversation(since=[read("read_mail", "https://evil.example/x")], said=["Not evil.example!", "Is evil.example up?"]),
    ),
    "a link to the end of a host with other letters": (
        LINK,
        "https://cher.example/x",
        Conversation(since=[read("read_mail", "https://cher.example/x")], said=["see bücher.example"]),
    ),
    "an address at the end of a host with two signs for a letter": (
        {"from": "read_mail", "form": "address"},
        "ann@cher.example",
        Conversation(since=[read("read_mail", "ann@cher.example")], said=["see bu\u0308cher.example"]),
    ),
    "a link with the named host as its user": (
        LINK,
        "https://shop.example@evil.example/x",
        Conversation(since=[read("read_mail", "https://shop.example@evil.example/x")], said=["see shop.example"]),
    ),
    "a link to a longer host": (
        LINK,
        "https://shop.example.evil.example/x",
        Conversation(since=[read("read_mail", "https://shop.example.evil.example/x")], said=["see shop.example"]),
    ),
    "a list with one foreign value": (CODE, ["A1", "B2-not-read"], Conversation(since=[read("read_mail", "A1")])),
    "a field name as a channel": (CODE, {"secret": "A1"}, Conversation(since=[read("read_mail", "A1")])),
    "a result that is not known any more": (CODE, "A1", Conversation(since=[read("read_mail", "A1")], is_whole=False)),
    "an empty list": (CODE, [], Conversation(since=[read("read_mail", "A1")])),
    "a letter of another alphabet": (CODE, "\u0410123", Conversation(since=[read("read_mail", "A123")])),
}


@pytest.mark.parametrize(("bound", "value", "conversation"), ATTACKS.values(), ids=ATTACKS.keys())
def test_a_value_that_only_looks_as_if_it_came_from_a_result_does_not_fit(
    bound: dict[str, Any], value: Any, conversation: Conversation
) -> None:
    line = Line.model_validate({"tool": "send_mail", "arguments": {"to": bound}})
    assert fits(line, FunctionCall("send_mail", {"to": value}), None, conversation) is not None


def test_a_value_of_a_result_fits() -> None:
    line = Line.model_validate({"tool": "send_mail", "arguments": {"to": CODE}})
    assert fits(line, FunctionCall("send_mail", {"to": "A1"}), None, Conversation(since=[read("read_mail", "A1")])) is None


@pytest.mark.parametrize(
    ("proposed", "shown"),
    [
        ([("amount", {"at_most": 50})] * 2, ["amount 100"]),
        ([("amount", {"at_most": 50}), ("amount", {"from": "read_mail", "form": "number"})], []),
        ([("amount", {"at_most": 50}), ("amount", {"from": "read_mail", "form": "number", "at_most": 9000})], ["amount 9050"]),
        ([("amount", {"at_most": 50}), ("amount", {"from": "read_mail"})], []),
        ([("amounts", {"at_most": 50})] * 2, []),
    ],
)
def test_the_whole_of_a_number_is_on_the_card_only_if_every_line_bounds_it(
    proposed: list[tuple[str, dict[str, Any]]], shown: list[str]
) -> None:
    tools = [
        ShopTool("refund", schema(amount=AMOUNT, amounts={"type": "array", "items": AMOUNT}), marker="(in plans)"),
        ShopTool("read_mail", schema(id=TEXT), reads=True, marker="(reads)"),
    ]
    lines = [{"tool": "refund", "arguments": {name: bound}} for name, bound in proposed]
    card = plan_card(Plan.model_validate({"lines": lines}), policy_of(tools, None), None)
    assert [one for one in card.split("\n") if one.startswith("In all")] == [f"In all at most: refund, {one}." for one in shown]


def test_the_whole_of_a_number_is_that_of_all_runs() -> None:
    line = {"tool": "refund", "arguments": {"amount": {"at_most": 50}}, "times": 2, "sum": {"amount": "70"}}
    card = plan_card(Plan.model_validate({"lines": [line], "minutes": 43_200, "job": "nightly", "runs": 30}), POLICY, None)
    assert card.split("\n")[:3] == [
        'Standing plan, in each of at most 30 runs of the job "nightly", at most:',
        "1. refund: amount up to 50; amount together up to 70; up to 2 times",
        "In all at most: refund, amount 2100.",
    ]
    once = {"tool": "refund", "arguments": {"amount": {"at_most": 50}}}
    card = plan_card(Plan.model_validate({"lines": [once], "minutes": 2880, "job": "nightly", "runs": 2}), POLICY, None)
    assert "In all at most: refund, amount 100." in card


TOO_WIDE: dict[str, Callable[[], dict[str, Any]]] = {
    "too many lines": lambda: {"lines": [{"tool": "refund", "arguments": {}}] * 9},
    "too long to be shown": lambda: {"lines": [{"tool": "refund", "arguments": {"order": {"is": ["x" * 4000]}}}]},
    "anything": lambda: {"lines": [{"tool": "refund", "arguments": {"order": {"anything": True}}}]},
    "a tool that is in no plan": lambda: {"lines": [{"tool": "find_order", "arguments": {}}]},
    "21 times": lambda: {"lines": [{"tool": "refund", "arguments": {}, "times": 21}]},
}


@pytest.mark.parametrize("proposed", TOO_WIDE.values(), ids=TOO_WIDE.keys())
def test_a_plan_that_is_too_wide_is_not_asked_about(proposed: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(PlanError):
        read_plan(proposed(), POLICY)
