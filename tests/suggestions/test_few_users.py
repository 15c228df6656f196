"""What few users do is not learned: it moves no limit, removes no rule, and is named with the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from graph_agent.policy.cedar.conditions import Verdict
from graph_agent.suggestions.effect import Judge
from graph_agent.suggestions.seen import SeenCalls
from tests.policy.cedar_shop import TEXT, ShopTool, policy_of, schema
from tests.suggestions.test_suggest import suggestion

WHOLE: dict[str, Any] = {"type": "integer"}
DECIMAL: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string"}]}
CHARGE = ShopTool("charge", schema("amount", amount=WHOLE))
MAIL = ShopTool("mail", schema("to", to=TEXT, text=TEXT))

Made = tuple[str, dict[str, Any]]
"""A user, and the arguments of their call."""


def record(number: int, tool: str, made: Made, **changed: Any) -> dict[str, Any]:
    user, arguments = made
    at = f"2026-09-{1 + number % 28:02}T{8 + number % 9:02}:00:00Z"
    context = {"user_id": user, "conversation_id": f"c{number}", "message": "go", "roles": []}
    call = {"sequence": 1, "tool_name": tool, "parameters": arguments, "disposition": "executed", "success": True}
    header = {"decision_id": f"d{number:05}", "context": context, "started_at": at}
    return {"header": header, "invocations": [{**call, "invoked_at": at, "error_code": None, "result": {}, **changed}]}


def records(tool: str, made: Sequence[Made]) -> list[dict[str, Any]]:
    return [record(number, tool, one) for number, one in enumerate(made)]


def ordinary(count: int = 54) -> list[Made]:
    """Return charges of eight users of at most 30."""
    return [(f"u{number % 8}", {"amount": 10 + number % 21}) for number in range(count)]


@pytest.mark.parametrize(
    "excess",
    [
        [("u1", 450)] * 2,
        [("u1", 450)] * 12,
        [("u1", 450)] * 2 + [("u2", 460)] * 2,
        [("u1", 450), ("u2", 9000)],
        # In steps that are no gaps.
        [("u1", amount) for amount in (37, 46, 57, 71, 88, 110, 137, 171)],
    ],
)
async def test_what_few_users_charge_does_not_move_the_limit_and_is_named(excess: list[tuple[str, int]]) -> None:
    without = await suggestion(records("charge", ordinary()), [CHARGE])
    made = [*ordinary(), *((user, {"amount": amount}) for user, amount in excess)]
    found = await suggestion(records("charge", made), [CHARGE])
    assert without.rules[0].name == "charge: amount at most 35"
    (limit,) = re.findall(r'amount at most (\d+)"\)', found.text)
    assert int(limit) <= 60
    amount = excess[-1][1]
    assert any(re.search(rf"charge: amount .*{amount}: \d+ calls? of \d users?, not learned", line) for line in found.lines())


async def test_the_limit_the_reason_and_the_question_of_one_user_who_charges_450_twice() -> None:
    made = [*ordinary(), ("u1", {"amount": 450}), ("u1", {"amount": 450})]
    found = await suggestion(records("charge", made), [CHARGE])
    assert '@id("charge: amount at most 35")' in found.text
    assert "charge: amount 450: 2 calls of 1 user, not learned." in found.lines()
    assert found.effect.by_rule["charge: amount at most 35"] == 2


async def test_a_group_of_larger_values_of_enough_users_is_ordinary() -> None:
    made = [*ordinary(), *((f"u{number}", {"amount": 300 + number}) for number in range(6))]
    found = await suggestion(records("charge", made), [CHARGE])
    assert "charge: amount at most 360" in [rule.name for rule in found.rules]
    assert not [line for line in found.lines() if "not learned" in line]


def mails(count: int = 54) -> list[Made]:
    return [(f"u{number % 8}", {"to": f"p{number}@example.com", "text": f"hello {number}"}) for number in range(count)]


@pytest.mark.parametrize("count", [3, 10])
async def test_mails_of_one_user_to_another_host_leave_the_rule_about_hosts_and_are_named(count: int) -> None:
    made = [*mails(), *(("u1", {"to": f"x{number}@other.example", "text": "hi"}) for number in range(count))]
    found = await suggestion(records("mail", made), [MAIL])
    assert '@id("mail: the usual hosts in to")' in found.text
    assert "other.example" not in found.text
    assert f"mail: to at other.example: {count} calls of 1 user, not learned." in found.lines()
    assert found.effect.by_rule["mail: the usual hosts in to"] == count


async def test_a_rule_about_hosts_that_many_users_do_not_keep_is_left_out_with_the_reason() -> None:
    made = [*mails(), *((f"u{number}", {"to": f"x@host{number}.example", "text": "hi"}) for number in range(6))]
    found = await suggestion(records("mail", made), [MAIL])
    assert "usual hosts" not in found.text
    assert "No rule for mail: to: 6 addresses of 6 users or more are at other hosts." in found.lines()


async def test_each_argument_without_a_rule_is_named_with_the_reason() -> None:
    properties = {"amount": WHOLE, "order_id": WHOLE, "note": TEXT, "rare": WHOLE, "extra": {}, "kind": {"enum": ["a", "b"]}}
    tool = ShopTool("charge", schema("amount", **properties))
    made = []
    for number, (user, arguments) in enumerate(ordinary()):
        given = {"order_id": 1000 + number, "note": f"note {number}", "extra": 1, "kind": "ab"[number // 8 % 2]}
        made.append((user, arguments | given | ({"rare": 1} if number < 4 else {})))
    lines = (await suggestion(records("charge", made), [tool])).lines()
    for why in (
        "order_id: it names an object, of which no number is too large",
        "note: its values differ: those of enough users are 0% of the calls",
        "rare: given in 4 calls: too little for a rule",
        "extra: conditions cannot see it: any value",
        "kind: all of its values are usual",
    ):
        assert f"No rule for charge: {why}." in lines
    assert not [line for line in lines if line.startswith("No rule for charge: amount")]


@pytest.mark.parametrize("text", [True, False])
async def test_a_decimal_argument_has_a_limit_also_if_it_is_sent_as_a_text(text: bool) -> None:
    tool = ShopTool("charge", schema("amount", amount=DECIMAL))
    made: list[Made] = [(user, {"amount": f"{one['amount']}.50" if text else one["amount"] + 0.5}) for user, one in ordinary()]
    found = await suggestion(records("charge", made), [tool])
    assert '@id("charge: amount at most 36")' in found.text
    policy = policy_of([tool], found.text)
    assert policy.conditions is not None
    judge = Judge(policy.conditions).judge

    def decided(amount: Any) -> Verdict:
        (verdict,) = (judge(call).verdict for call in SeenCalls(policy).of(record(1, "charge", ("u1", {"amount": amount}))))
        return verdict

    assert [decided(one) for one in ("20.5", 20.5, "450.00", 450)] == [Verdict.RUNS] * 2 + [Verdict.ASKS] * 2


async def test_questions_that_were_answered_no_teach_nothing_and_a_yes_counts_once() -> None:
    asked = [record(100 + number, "charge", one, disposition="awaiting") for number, one in enumerate(ordinary(60))]
    assert (await suggestion(asked, [CHARGE])).rules == []
    done = records("charge", ordinary(49))
    found = await suggestion([*asked[:49], *done], [CHARGE])
    assert "No rule for charge: 49 calls of 8 users: too little for a rule." in found.lines()


async def test_a_tool_of_which_the_constitution_asks_about_each_call_gets_no_rule() -> None:
    tool = CHARGE._replace(marker="(requires confirmation)")
    found = await suggestion(records("charge", ordinary()), [tool])
    assert found.rules == []
    why = "charge: the constitution asks about each call, so that a rule would change nothing"
    assert f"No rule for {why}." in found.lines()


async def test_limits_for_one_message_and_words_of_the_user_are_suggested_only_if_asked_for() -> None:
    said = records("charge", ordinary())
    for one in said:
        one["header"]["context"]["message"] = f"charge {one['invocations'][0]['parameters']['amount']}"
    found = await suggestion(said, [CHARGE])
    assert not re.search("for one message|words of the user", found.text)
    assert "No rule for charge: 2 rules about one message or the words of the user: see --more." in found.lines()
    more = await suggestion(said, [CHARGE], more=True)
    assert len(more.rules) == len(found.rules) + 2
