"""The conditions of `policy.cedar` in the guard: composition, the traps of Cedar, and the errors of a file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from graph_agent.errors import ConfigurationError, ToolErrorCode
from graph_agent.models.canonical import canonical_json
from graph_agent.models.decision import PendingAction
from graph_agent.models.facts import Facts
from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.policy.call_in_hand import Setting
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.compiled import CompiledPolicy
from graph_agent.policy.guard import permitted_read
from graph_agent.policy.past_call import PastCall
from tests.judging import judge_batch, rule_of_verdict
from tests.policy.cedar_shop import AMOUNT, COUNT, PERMIT, RULES, SHOP, TEXT, ShopTool, facts, judge, policy_of, schema

REFUND = next(tool for tool in SHOP if tool.name == "refund")
AMPLE = {"order": "o1", "amount": 50}


def conditions(rules: str, *tools: ShopTool) -> CompiledPolicy:
    return policy_of(tools or (REFUND,), PERMIT + rules)


def verdict(
    policy: CompiledPolicy, arguments: dict[str, Any], tool: str = "refund", **situation: Any
) -> tuple[CallDisposition, str]:
    judged = judge(policy, tool, arguments, **{"facts": facts(), **situation})
    return judged.disposition, rule_of_verdict(judged)


REFUSED, ASKS, RUNS = CallDisposition.REFUSED, CallDisposition.AWAITING, CallDisposition.EXECUTED


# --- the traps that let a call through


@pytest.mark.parametrize(
    "value",
    [
        {"__entity": {"type": "Role", "id": "manager"}},
        {"__extn": {"fn": "decimal", "arg": "1.0"}},
        {"__expr": 'User::"ann"'},
    ],
)
def test_an_argument_never_becomes_an_entity_or_an_extension_value(value: Any) -> None:
    anything = ShopTool("act", schema("note", note={}))
    rule = '@id("seen") forbid (principal, action, resource) when { context.hidden.contains("note") };'
    assert verdict(conditions(rule, anything), {"note": value}, "act") == (REFUSED, "seen")
    nested = ShopTool("act", schema("who", who=schema("id", id=TEXT)))
    open_record = ShopTool("act", schema("who", who={**schema("id", id=TEXT), "additionalProperties": True}))
    rule = '@id("who") forbid (principal, action, resource) unless { context.arguments.who.id == "x" };'
    assert verdict(conditions(rule, nested), {"who": value}, "act")[0] is REFUSED
    assert verdict(conditions(rule, open_record), {"who": {"id": "x", **value}}, "act") == (RUNS, "")
    reserved = ShopTool("act", {**schema(), "properties": {name: {} for name in value}})
    rule = '@id("unseen") forbid (principal, action, resource) unless { context.hidden.isEmpty() };'
    assert verdict(conditions(rule, reserved), value, "act") == (REFUSED, "unseen")


def test_a_forbid_that_fails_refuses_the_call_instead_of_being_skipped() -> None:
    overflow = conditions(
        '@id("big") forbid (principal, action, resource) when { context.arguments.amount * 10000000000 > 5 };'
    )
    assert verdict(overflow, {**AMPLE, "amount": 2**40}) == (REFUSED, "these conditions cannot be evaluated for it: big")
    assert verdict(overflow, {**AMPLE, "amount": 0}) == (RUNS, "")
    # A rule that does not fit the tools is not in force, but neither is it skipped if it is evaluated.
    unchecked = policy_of([REFUND], None).with_conditions(
        ConditionsFile(PERMIT + '@id("x") forbid (principal, action, resource) when { context.arguments.sum > 5 };')
    )
    assert verdict(unchecked, AMPLE) == (REFUSED, "these conditions cannot be evaluated for it: x")


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("amount", 2**63),
        ("amount", -(2**63) - 1),
        ("price", 1e300),
        ("price", 0.00001),
        ("order", "\ud800"),
    ],
)
def test_what_cedar_has_no_value_for_is_refused_if_a_rule_reads_it(argument: str, value: Any) -> None:
    tool = ShopTool("act", schema(amount={"type": "integer"}, price={"type": "number"}, order=TEXT))
    read = conditions(f"forbid (principal, action, resource) when {{ context.arguments has {argument} && false }};", tool)
    assert verdict(read, {argument: value}, "act")[0] is REFUSED
    if value != "\ud800":
        assert verdict(conditions("", tool), {argument: value}, "act") == (RUNS, "")


def test_numbers_of_the_declared_value_are_converted() -> None:
    tool = ShopTool("act", schema(amount={"type": ["integer", "null"]}, price={"type": "number"}))
    condition = "context.arguments has amount && context.arguments.amount == 5"
    rule = f'@id("five") forbid (principal, action, resource) when {{ {condition} }};'
    policy = conditions(rule, tool)
    assert verdict(policy, {"amount": 5.0}, "act") == (REFUSED, "five")
    assert verdict(policy, {"amount": None}, "act") == (RUNS, "")
    price = conditions("forbid (principal, action, resource) when { context.arguments has price };", tool)
    assert verdict(price, {"price": -0.0001}, "act")[0] is REFUSED
    assert verdict(price, {"price": None, "amount": 1}, "act")[0] is REFUSED  # the schema refuses null


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("a@example.com", "example.com"),
        ("https://Example.COM:8080/x?y#z", "example.com"),
        ("a@bücher.example", "xn--bcher-kva.example"),
        ("call mom", ""),
        ("", ""),
        ("a@evil.org,b@example.com", "?"),
        ("https:evil.org", "?"),
        ("\x00 h\tttp:/evil.org", "?"),
        ("a\uff20evil.org", "?"),
        ("a@stra\xdfe.de", "?"),
        ("a@xn--strae-oqa.de", "xn--strae-oqa.de"),
        ("a@exam\u200dple.com", "?"),
        ("https://exa\u3002mple.com/", "?"),
        ("https://\u212a.com/", "?"),
        ("note: buy milk, then\ncall mom!", ""),
        ("https://evil.org\\@example.com", "?"),
        ("https://example.com@evil.org/", "?"),
        ("https://example.com%2eevil.org/", "?"),
        ("//example.com/", "?"),
        ("a@example.com@evil.org", "?"),
        ("<a@example.com>", "?"),
        ("a@example.com\nBcc: b@evil.org", "?"),
        ("a@exаmple.com", "xn--exmple-4nf.com"),  # a Cyrillic letter
        ("a@example.com.evil.org", "example.com.evil.org"),
        ("https://[::1]/", "?"),
        ("https:\\\\example.com", "?"),
        ("a@example.com?bcc=b@evil.org", "?"),
        (" https://example.com/", "?"),
        ("https://exa\u00admple.com/", "?"),
    ],
)
def test_a_host_that_two_parsers_could_read_differently_is_a_question_mark(text: str, host: str) -> None:
    mail = next(tool for tool in SHOP if tool.name == "send_mail")
    policy = conditions(
        f'@id("other host") forbid (principal, action, resource) unless {{ context.domain.to == ["{host}"] }};', mail
    )
    assert verdict(policy, {"to": [text], "text": "x"}, "send_mail") == (RUNS, "")


def test_every_recipient_must_be_inside() -> None:
    policy = policy_of(SHOP, RULES)
    for outside in ("a@evil.org", "a@example.com.evil.org", "a@evil.org,b@example.com", ""):
        sent = {"to": ["a@example.com", outside], "text": "x"}
        assert verdict(policy, sent, "send_mail") == (ASKS, "mail outside needs a yes")
    assert verdict(policy, {"to": ["a@example.com"], "text": "x"}, "send_mail") == (RUNS, "")


def test_sums_include_this_call_and_negative_amounts_make_no_room() -> None:
    tool = ShopTool("move", schema("n", n={"type": "integer"}))
    rule = '@id("10 a day") forbid (principal, action, resource) when { context.used.day.sum.n > 10 };'
    policy = conditions(rule, tool)
    used = facts(used={"day": {"tools": {"move": {"calls": 1, "sums": {"n": 10}}}}})
    assert verdict(policy, {"n": 1}, "move", facts=used) == (REFUSED, "10 a day")
    assert verdict(policy, {"n": -100}, "move", facts=used) == (RUNS, "")
    past = [PastCall(1, "move", {"n": -100}), PastCall(2, "move", {"n": 10})]
    assert verdict(policy, {"n": 1}, "move", past=past) == (REFUSED, "10 a day")
    failed = [PastCall(1, "move", {"n": 10}, may_have_run=False)]
    assert verdict(policy, {"n": 1}, "move", past=failed) == (RUNS, "")
    full = facts(used={"day": {"tools": {"move": {"calls": 1, "sums": {"n": 2**63 - 1}}}}})
    assert verdict(policy, {"n": 1}, "move", facts=full)[0] is REFUSED


def test_uses_of_one_batch_count_together() -> None:
    policy = conditions(
        '@id("100 a message") forbid (principal, action, resource) when { context.used.message.sum.amount > 100 };'
    )
    batch = [FunctionCall(name="refund", arguments={"order": order, "amount": 60}) for order in ("a", "b")]
    whole: dict[str, Any] = {"policy": policy, "user_id": "ann", "decision_id": "d", "max_calls_per_turn": 9}
    first, second = judge_batch(batch, **whole)
    # That is foreseen as if the first one had been sent. It is judged when it is known if it was done.
    assert (first.disposition, second.disposition, second.authorized) == (RUNS, REFUSED, None)
    for may_have_run, expected in ((True, (REFUSED, "100 a message")), (False, (RUNS, ""))):
        past = [PastCall(1, "refund", batch[0].arguments, may_have_run=may_have_run)]
        (second,) = judge_batch(batch, past=past, place=1, **whole)
        assert (second.sequence, second.disposition, rule_of_verdict(second)) == (2, *expected)


def test_writes_count_all_tools_and_calls_one() -> None:
    ship = next(tool for tool in SHOP if tool.name == "ship")
    stock = next(tool for tool in SHOP if tool.name == "stock")
    rules = """@id("writes") forbid (principal, action, resource) when { context.used.message.writes > 2 };
    @id("calls") forbid (principal, action, resource) when { context.used.message.calls > 1 };"""
    policy = conditions(rules, REFUND, ship, stock)
    shipped = [PastCall(n, "ship", {"order": str(n), "carrier": "ups"}) for n in (1, 2)]
    looked = PastCall(1, "stock", {"sku": "a"})
    assert verdict(policy, AMPLE, past=shipped[:1]) == (RUNS, "")
    assert verdict(policy, AMPLE, past=[looked, *shipped[:1]]) == (RUNS, "")
    assert verdict(policy, AMPLE, past=shipped) == (REFUSED, "writes")
    assert verdict(policy, {"sku": "b"}, "stock", past=[looked]) == (REFUSED, "calls")


# --- the other traps


def test_a_file_without_a_permit_is_refused() -> None:
    for text in ("", "// nothing", "forbid (principal, action, resource);"):
        with pytest.raises(ConfigurationError, match="permits nothing: begin it with `permit"):
            policy_of([REFUND], text)


def test_a_rule_on_a_group_matches_the_tools_of_the_group() -> None:
    stock = next(tool for tool in SHOP if tool.name == "stock")
    for group in ("all tools", "all writes", "server shop"):
        policy = conditions(f'@id("group") forbid (principal, action in Action::"{group}", resource);', REFUND, stock)
        assert verdict(policy, AMPLE) == (REFUSED, "group")
        assert verdict(policy, {"sku": "a"}, "stock")[0] is (RUNS if group == "all writes" else REFUSED)


def test_the_reasons_are_sorted() -> None:
    rules = "".join(f'@id("{name}") forbid (principal, action, resource);' for name in "dbca")
    assert verdict(conditions(rules), AMPLE) == (REFUSED, "a; b; c; d")


def test_only_what_a_rule_names_is_converted() -> None:
    place = ShopTool("go", schema("latitude", "order", latitude=AMOUNT, order=TEXT))
    rule = 'forbid (principal, action, resource) when { context.arguments.order == "x" };'
    assert verdict(conditions(rule, place), {"latitude": 52.520008, "order": "y"}, "go") == (RUNS, "")
    record = '{"order": "x", "latitude": decimal("1.0")}'
    whole = conditions(f"forbid (principal, action, resource) when {{ context.arguments == {record} }};", place)
    assert verdict(whole, {"latitude": 52.520008, "order": "y"}, "go") == (REFUSED, "'latitude' has more than four decimals")


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("\nforbid (principal, action, resource) when { context.arguments.sum > 5 };", "line 3: attribute `arguments.sum`"),
        ('forbid (principal in Role::"manger", action, resource);', "line 2: the condition names a role that does not count: "),
        (
            'forbid (principal, action, resource) when { context.attempted.contains(Action::"read_privte") };',
            "line 2: unrecognized action",
        ),
        ('forbid (principal, action == Action::"refnd", resource);', "line 2: unrecognized action"),
        ("forbid (principal, action, resource) when { context.arguments.amount.greaterThan(decimal(\"1.0\")) };", "line 2"),
        ("\n\npermit (principal == ?principal, action, resource);", "line 4: templates cannot be used"),
        ('@id("base") forbid (principal, action, resource);', "line 2: two conditions have the @id 'base'"),
        (f'@id("{"x" * 201}") forbid (principal, action, resource);', "line 2: an @id is a short text"),
        ('@id("a\\u{202e}b") forbid (principal, action, resource);', "line 2: an @id is a short text"),
        (
            '\n@shadw("new")\nforbid (principal, action, resource);',
            "line 3: @shadw has no effect; the nearest annotation is @shadow",
        ),
        ('@ID("one") permit (principal, action, resource);', "line 2: @ID has no effect; the nearest annotation is @id"),
        ("\nforbid (principal, action, resource) when { ;", "line 3: unexpected token"),
        ("forbid (principal, action, resource) when { true }", "line 2: unexpected end of input"),
        (f"{PERMIT}deny (principal, action, resource);\n{PERMIT}", "line 3: invalid policy effect: deny"),
        ('forbid (principal, action, resource) when { "open };', "line 2: invalid token"),
        ("forbid (principal, action, resource) when { " + " || ".join(["true"] * 150) + " };", "line 2: "),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_used_is_an_error_with_its_line(rules: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        conditions(rules)
    assert message in str(caught.value)


# The parser ends the process at 800 to 1,600 of each.
@pytest.mark.parametrize(
    ("before", "middle", "after"),
    [
        ("(", "true", ")"),
        ("!(", "true", ")"),
        ("[", "1", "]"),
        ("{a: ", "1", "}"),
        ("if true then ", "true", " else true"),
        ("if true then true else ", "true", ""),
        ("true && ", "true", ""),
        ("true || ", "true", ""),
        ("1 + ", "1", ""),
        ("2 * ", "1", ""),
        ("", "context", ".a"),
        ("", "context", '["a"]'),
        ("", "context.a", ".contains(1)"),
        ("", "context has a", ".a"),
        ("[1, (", "true", "), 2]"),
        # A comment ends at a carriage return too.
        ("// comment\r(", "true", ")"),
    ],
)
def test_a_rule_that_is_nested_too_deep_is_refused_before_it_is_parsed(before: str, middle: str, after: str) -> None:
    condition = before * 3000 + middle + after * 3000
    with pytest.raises(ConfigurationError, match="line 3: its expressions are nested too deep"):
        conditions(f"\nforbid (principal, action, resource) when {{ {condition} }};")


@pytest.mark.parametrize("term", ["context.arguments.amount < 5", '(context.arguments.order == "b" || !(1 < 2))'])
def test_a_rule_as_long_as_the_parser_takes_it_is_accepted(term: str) -> None:
    policy = conditions(f"forbid (principal, action, resource) when {{ {' && '.join([term] * 90)} }};")
    assert verdict(policy, {"order": "b", "amount": 5})[0] == (RUNS if "amount" in term else REFUSED)


def test_lines_are_counted_beside_comments_and_texts_with_semicolons() -> None:
    rules = r"""// a; b "c
@id("x; // y") forbid (principal, action, resource) when { "\";" == ";" };

@id("z")
forbid (principal, action == Action::"no", resource);"""
    with pytest.raises(ConfigurationError, match="line 5: unrecognized action"):
        conditions(rules)


def test_a_long_list_of_values_is_accepted() -> None:
    values = ",".join(f'"o{number}"' for number in range(1500))
    policy = conditions(
        f'@id("known") forbid (principal, action, resource) when {{ [{values}].contains(context.arguments.order) }};'
    )
    assert verdict(policy, {"order": "o1499", "amount": 1}) == (REFUSED, "known")
    assert verdict(policy, {"order": "o1500", "amount": 1}) == (RUNS, "")


def test_a_rule_on_tools_with_different_types_is_refused() -> None:
    pay = next(tool for tool in SHOP if tool.name == "pay")
    with pytest.raises(ConfigurationError, match="line 2"):
        conditions("forbid (principal, action, resource) when { context.arguments.amount > 5 };", REFUND, pay)


def test_a_tool_with_the_name_of_a_group_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="has the name of a group"):
        conditions("", ShopTool("all writes", schema()))


def test_roles_need_a_setting() -> None:
    for roles, known in (((), "names none: set it, such as groups=manager"), (("suport", "clerk"), "has suport, clerk")):
        with pytest.raises(ConfigurationError, match=f"line 2: the condition names a role that does not count: .* {known}"):
            policy_of([REFUND], PERMIT + 'forbid (principal in Role::"manager", action, resource);', roles=roles)


def test_texts_are_compared_exactly() -> None:
    policy = conditions('@id("é") forbid (principal, action, resource) when { context.arguments.order like "*é*" };')
    assert verdict(policy, {"order": "é", "amount": 1}) == (REFUSED, "é")
    assert verdict(policy, {"order": "e\u0301", "amount": 1}) == (RUNS, "")


# --- composition


@pytest.mark.parametrize("marker", ["", "(requires confirmation)"])
@pytest.mark.parametrize("without", [True, False])
@pytest.mark.parametrize("with_yes", [True, False])
def test_the_table_of_composition(marker: str, without: bool, with_yes: bool) -> None:
    rules = PERMIT
    if not without:
        rules += '@id("ask") forbid (principal, action, resource) unless { context.confirmed };'
    if not with_yes:
        rules += '@id("never") forbid (principal, action, resource) when { context.confirmed };'
    policy = policy_of([ShopTool("refund", REFUND.parameters, marker=marker)], rules)
    expected = REFUSED if not with_yes else ASKS if marker or not without else RUNS
    assert verdict(policy, AMPLE)[0] is expected
    # The rules are asked again after the yes.
    assert judge(policy, "refund", AMPLE, confirmed=_pending(AMPLE)).disposition is (RUNS if with_yes else REFUSED)


@pytest.mark.parametrize(
    ("rule", "decision"),
    [
        ("when { context.arguments.amount > 100 } unless { context.confirmed }", RUNS),
        ("when { context.confirmed }", REFUSED),
        ("unless { !context.confirmed }", REFUSED),
        ("unless { !(context has confirmed && context.confirmed) }", REFUSED),
        ("when { context.confirmed && context.arguments.amount + 9223372036854775807 > 0 }", REFUSED),
    ],
)
def test_a_call_that_runs_without_a_yes_is_refused_where_the_yes_forbids_it_or_cannot_be_evaluated(
    rule: str, decision: CallDisposition
) -> None:
    assert verdict(conditions(f"forbid (principal, action, resource) {rule};"), AMPLE)[0] is decision


def test_a_permit_that_only_asks_without_the_yes_refuses_with_it() -> None:
    rules = "permit (principal, action, resource) when { !context.confirmed };"
    assert verdict(policy_of((REFUND,), rules), AMPLE)[0] is REFUSED


def test_a_yes_to_other_arguments_confirms_nothing() -> None:
    policy = conditions('@id("ask") forbid (principal, action, resource) unless { context.confirmed };')
    judged = judge(policy, "refund", {**AMPLE, "amount": 51}, confirmed=_pending(AMPLE))
    assert (judged.disposition, judged.authorized) == (ASKS, None)


def _pending(arguments: dict[str, Any]) -> PendingAction:
    start = {"id": "p1", "tool_name": "refund", "arguments": arguments, "description": "x"}
    times = {"created_at": "2026-11-23T11:00:00Z", "expires_at": "2026-11-23T11:05:00Z"}
    return PendingAction.model_validate({**start, **times})


def test_conditions_grant_no_tool() -> None:
    policy = conditions('@id("all") permit (principal, action == Action::"refund", resource);')
    judged = judge(policy, "ship", {})
    assert (judged.disposition, judged.error_code) == (REFUSED, ToolErrorCode.TOOL_NOT_FOUND)
    judged = judge(policy, "refund", {"order": 5, "amount": 1})
    assert (judged.disposition, judged.error_code) == (REFUSED, ToolErrorCode.VALIDATION_ERROR)


def test_what_no_rule_permits_is_refused() -> None:
    policy = policy_of([REFUND], '@id("managers") permit (principal in Role::"manager", action, resource);')
    assert verdict(policy, AMPLE) == (REFUSED, "no condition permits it")
    assert verdict(policy, AMPLE, roles=("manager",)) == (RUNS, "")
    assert verdict(policy, AMPLE, roles=("admin",)) == (REFUSED, "no condition permits it")


def test_a_repetition_gets_the_earlier_result_also_if_it_would_be_too_much() -> None:
    policy = conditions('@id("100") forbid (principal, action, resource) when { context.used.message.sum.amount > 100 };')
    call = {"order": "a", "amount": 60}
    repeated = judge(policy, "refund", call, [PastCall(1, "refund", call)])
    assert (repeated.disposition, repeated.repeats, repeated.authorized) == (CallDisposition.REPEATED, 1, None)
    again = judge(policy, "refund", call, [PastCall(1, "refund", call, may_have_run=False)])
    assert (again.disposition, again.authorized is not None) == (CallDisposition.EXECUTED, True)


def test_a_read_for_display_follows_the_conditions() -> None:
    stock = next(tool for tool in SHOP if tool.name == "stock")
    policy = conditions('@id("managers") forbid (principal, action, resource) unless { principal in Role::"manager" };', stock)
    call = FunctionCall(name="stock", arguments={"sku": "a"})
    assert permitted_read(call, Setting(policy=policy, user_id="ann")) is None
    assert permitted_read(call, Setting(policy=policy, user_id="ann", roles=("manager",))) is not None


def test_facts_that_are_not_known_refuse_the_call() -> None:
    for condition in ("context.time.hour < 8", "context.used.day.calls > 3", 'context.attempted.contains(Action::"refund")'):
        policy = conditions(f"forbid (principal, action, resource) when {{ {condition} }};")
        assert verdict(policy, AMPLE, facts=None)[0] is REFUSED
    policy = conditions('forbid (principal, action, resource) when { context.attempted.contains(Action::"refund") };')
    today = Facts.model_validate({"now": "2026-11-23T11:00:00Z", "hour": 11, "weekday": "Mon"})
    assert verdict(policy, AMPLE, facts=today)[0] is REFUSED
    assert verdict(policy, AMPLE, facts=facts(attempted=["ship"])) == (RUNS, "")


def test_the_time_is_that_of_the_time_zone() -> None:
    from datetime import UTC, datetime

    midnight = datetime(2026, 11, 22, 23, 30, tzinfo=UTC)
    here = Facts.at(midnight, "Europe/Berlin")
    assert (here.hour, here.weekday) == (0, "Mon")
    policy = conditions('@id("night") forbid (principal, action, resource) when { context.time.hour < 8 };')
    assert verdict(policy, AMPLE, facts=here) == (REFUSED, "night")
    assert verdict(policy, AMPLE, facts=Facts.at(midnight, "UTC")) == (RUNS, "")


def test_the_shop_decides_as_its_rules_say() -> None:
    policy = policy_of(SHOP, RULES)
    cases: list[tuple[str, dict[str, Any], dict[str, Any], tuple[CallDisposition, str]]] = [
        ("refund", {"order": "o", "amount": 100}, {}, (RUNS, "")),
        ("refund", {"order": "o", "amount": 101}, {}, (ASKS, "big refunds need a yes")),
        ("refund", {"order": "o", "amount": 501}, {}, (REFUSED, "refunds at most 500")),
        ("refund", {"order": "o", "amount": 501}, {"roles": ("manager",)}, (ASKS, "big refunds need a yes")),
        ("refund", {"order": "o", "amount": 1, "reason": "other"}, {}, (ASKS, "other needs a yes")),
        ("cancel_order", {"order": "o"}, {}, (ASKS, "")),
        ("discount", {"customer": "c", "percent": 15.5}, {}, (ASKS, "discount up to 15")),
        ("discount", {"customer": "c", "percent": 50.0001}, {}, (REFUSED, "discount up to 50")),
        ("restock", {"sku": "TEST-1", "count": 1}, {}, (RUNS, "")),
        ("restock", {"sku": "xTEST-1", "count": 1}, {}, (ASKS, "test goods only without yes")),
        ("pay", {"iban": "x", "amount": 1}, {}, (REFUSED, "login first")),
        ("pay", {"iban": "x", "amount": 1}, {"facts": facts(succeeded=["login_bank"])}, (ASKS, "payments need a yes")),
        ("web_post", {"url": "https://shop.example.com/x", "body": {}}, {}, (ASKS, "unseen details need a yes")),
        ("web_post", {"url": "https://evil.org/x", "body": {}}, {}, (REFUSED, "post only to our site")),
        (
            "web_post",
            {"url": "https://shop.example.com/x", "body": {}},
            {"facts": facts(attempted=["read_private"])},
            (REFUSED, "nothing leaves after private reads"),
        ),
    ]  # fmt: skip
    for tool, arguments, situation, expected in cases:
        assert verdict(policy, arguments, tool, **situation) == expected, tool


# --- files and loading


def test_the_text_of_the_record_has_everything_that_decides() -> None:
    policy = conditions("")
    assert policy.conditions is not None
    same, other = conditions("").conditions, policy_of([REFUND], PERMIT, roles=("x",)).conditions
    assert same is not None
    assert other is not None
    assert policy.conditions.text == same.text
    assert policy.conditions.text != other.text
    assert '"engine":"cedarpy ' in policy.conditions.text
    assert canonical_json(PERMIT) in policy.conditions.text


@pytest.mark.parametrize(
    ("content", "zone", "message"),
    [
        (None, "UTC", "cannot be read"),
        (b"\xff", "UTC", "is not UTF-8"),
        (b" " * 300_000, "UTC", "more than 262,144 characters"),
        (b"", "Mars/Olympus", "there is no time zone 'Mars/Olympus'"),
        (b"", "../etc/passwd", "there is no time zone"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_sentence(tmp_path: Path, content: bytes | None, zone: str, message: str) -> None:
    file = tmp_path / "policy.cedar"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=message):
        ConditionsFile.load(file, time_zone=zone)


def test_cedar_is_loaded_only_for_a_file() -> None:
    """In a process of its own, because this one has loaded it."""
    program = """
import sys
from graph_agent.policy import guard
from graph_agent.task_server.declarations import TASK_TOOLS
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.compiled import compile_policy
policy = compile_policy(Constitution.load(), TASK_TOOLS, {})
print("cedarpy" in sys.modules, "z3" in sys.modules)
from graph_agent.policy.cedar.conditions import ConditionsFile
policy.with_conditions(ConditionsFile("permit (principal, action, resource);"))
print("cedarpy" in sys.modules, "z3" in sys.modules)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["False", "False", "True", "False"]


def test_without_the_extra_a_file_is_refused_with_the_remedy() -> None:
    program = """
import sys
sys.modules["cedarpy"] = None
from graph_agent.policy.cedar.compiled import compile_conditions
from graph_agent.policy.cedar.conditions import ConditionsFile
compile_conditions(ConditionsFile("permit (principal, action, resource);"), [], {})
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "needs the extra 'policy': pip install 'graph-agent[policy]'" in ended.stderr


def test_counts_are_named_in_the_schema_with_their_types() -> None:
    tool = ShopTool("act", schema("n", n=COUNT, price=AMOUNT, to={"type": "array", "items": TEXT}))
    rules = """forbid (principal, action, resource) when { context.used.hour.sum.n > 1 && context.length.to > 2 };
    forbid (principal, action, resource) when { context.used.day.sum.price.greaterThan(decimal("1.5")) };"""
    policy = conditions(rules, tool)
    used = facts(used={"day": {"tools": {"act": {"calls": 2, "sums": {"price": 14_999}}}}})
    assert verdict(policy, {"n": 1, "price": 0.0001}, "act", facts=used) == (RUNS, "")
    assert verdict(policy, {"n": 1, "price": 0.0002}, "act", facts=used)[0] is REFUSED
