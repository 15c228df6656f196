"""The answers of the analysis about policies: every example is confirmed by the guard, and every planted mistake is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.pattern_samples import matching_text
from graph_agent.analysis.questions import AnalysisResult, Answer, Change, explain, prove
from graph_agent.errors import ConfigurationError
from graph_agent.policy.cedar.conditions import ConditionsFile
from tests.policy.cedar_shop import PERMIT, ROLES, RULES, SHOP, TEXT, ShopTool, policy_of, schema

SECONDS = 300.0
"""A limit that no machine reaches."""
OLD = policy_of(SHOP, RULES)
MAIL = next(tool for tool in SHOP if tool.name == "send_mail")
REFUND = next(tool for tool in SHOP if tool.name == "refund")


def shown(results: Sequence[AnalysisResult]) -> list[str]:
    """Return the changes as text; every example must be one that the guard confirms."""
    assert [str(one.example) for one in results if not one.is_certain] == []
    return [
        f"{one.answer}: {one.name}" if one.example is None else f"{one.answer}: {one.example} ({one.example.guard})"
        for one in results
    ]


def changed(right: str, wrong: str, tools: Sequence[ShopTool] = SHOP) -> list[str]:
    """Return what is shown of a mistake in the rules, in the whole shop or in one with some of its tools and their rules."""
    assert RULES.count(right) == 1
    names = {tool.name for tool in tools}
    rules = "".join(rule for rule in RULE if tools_of(rule) <= names)
    return shown(compare(policy_of(tools, rules), policy_of(tools, rules.replace(right, wrong)), SECONDS))


RULE = re.split(r"^(?=@id)", RULES, flags=re.MULTILINE)


def tools_of(text: str) -> set[str]:
    return {tool.name for tool in SHOP if re.search(rf'"{tool.name}"|\b{tool.name}\(', text)}


def test_the_same_policy_has_no_differences() -> None:
    assert compare(OLD, policy_of(SHOP, RULES), SECONDS) == []


MISTAKES = [
    (
        '|| ["example.com"].containsAll(context.domain.to) }',
        '|| ["example.com"].containsAny(context.domain.to) }',
        'newly possible without a yes: send_mail(to=["", "a@example.com"], text="") (asks -> runs)',
    ),
    ("amount > 100 }", "amount > 1000 }", 'newly possible without a yes: refund(order="", amount=101) (asks -> runs)'),
    (
        "has reason && context.arguments.reason ==",
        "has reson && context.arguments.reson ==",
        "decides nothing: other needs a yes",
    ),
    (
        "used.day.sum.amount > 2000",
        "used.hour.sum.amount > 2000",
        'newly possible without a yes: refund(order="", amount=0)  [day before: amount=2001, calls=1, writes=1] '
        "(refused -> runs)",
    ),
    ('"TEST-*"', '"*TEST-*"', "newly possible without a yes: restock("),
    ("hour < 8 || context", "hour < 8 && context", "decides nothing: price list closed at night"),
    ("amount > 500 }", "amount * 10000000000000000 > 5000000000000000000 }", "no longer possible: refund("),
    ("used.hour.calls > 10 }", "used.hour.calls > 11 }", "newly possible without a yes: refund("),
    ('"manager" };\n@id("2000', '"support" };\n@id("2000', "newly possible with a yes: refund("),
    ("context.length.to > 20", "context.length.to > 21", "newly possible without a yes: send_mail("),
    ('decimal("50.0")', 'decimal("50.0001")', 'newly possible with a yes: discount(customer="", percent=50.0001)'),
    (
        "context.hidden.isEmpty() || context.confirmed",
        "context.hidden.isEmpty() || true",
        "newly possible without a yes: web_post(",
    ),
    ('contains(Action::"login_bank")', 'contains(Action::"pay")', "no longer possible: pay("),
    ("used.hour.writes > 30", "used.day.writes > 30", "no longer possible: refund("),
    ("context.time.hour >= 18", "context.time.hour > 18", "newly possible without a yes: set_price("),
    ('["shop.example.com"].contains', '["", "shop.example.com"].contains', "newly possible with a yes: web_post("),
]


@pytest.mark.parametrize(("right", "wrong", "expected"), MISTAKES)
def test_a_planted_mistake_in_the_rules_of_a_tool_is_shown(right: str, wrong: str, expected: str) -> None:
    before, after = RULES[: RULES.index(right)], RULES[RULES.index(right) :]
    rule = before[before.rindex("@id") :] + after.partition("@id")[0]
    names = tools_of(rule + expected)
    found = changed(right, wrong, [tool for tool in SHOP if tool.name in names])
    assert any(line.startswith(expected) for line in found), found


@pytest.mark.parametrize(
    ("right", "wrong", "expected"), [MISTAKES[0], *(pytest.param(*one, marks=pytest.mark.nightly) for one in MISTAKES[1:])]
)
def test_a_planted_mistake_in_a_policy_is_shown(right: str, wrong: str, expected: str) -> None:
    found = changed(right, wrong)
    assert any(line.startswith(expected) for line in found), found


def test_a_budget_that_begins_at_0_is_named() -> None:
    day = 'forbid (principal, action == Action::"refund", resource) when { context.used.day.calls > 9 };'
    hour = day.replace("day", "hour")
    before, after = policy_of([REFUND], PERMIT), policy_of([REFUND], PERMIT + day)
    assert [one.name for one in compare(before, after, SECONDS) if one.answer is Change.COUNTED] == ["refund"]
    assert [one for one in compare(after, policy_of([REFUND], PERMIT + hour), SECONDS) if one.answer is Change.COUNTED] == []


def test_a_removed_marker_and_a_removed_rule_are_shown() -> None:
    without_marker = [tool._replace(marker="") if tool.name == "delete_customer" else tool for tool in SHOP]
    expected = ['newly possible without a yes: delete_customer(customer="") (asks -> runs)']
    assert shown(compare(OLD, policy_of(without_marker, RULES), SECONDS)) == expected
    (result,) = compare(policy_of([REFUND], PERMIT), policy_of([REFUND, ShopTool("drop", schema())], PERMIT), SECONDS)
    assert (result.name, result.answer) == ("drop", Change.RUNS)
    (result,) = compare(
        policy_of([REFUND], PERMIT), policy_of([REFUND._replace(marker="(at most 2 per message)")], PERMIT), SECONDS
    )
    assert result.answer is Change.REFUSED


def test_a_changed_schema_is_shown_by_the_arguments_that_it_newly_accepts() -> None:
    def refund_for(*reasons: str) -> ShopTool:
        return ShopTool("refund", schema("reason", reason={"type": "string", "enum": list(reasons)}))

    wider = compare(policy_of([refund_for("a")], PERMIT), policy_of([refund_for("a", "b")], PERMIT), SECONDS)
    assert shown(wider) == ['newly possible without a yes: refund(reason="b") (refused -> runs)']
    open_tool = ShopTool("refund", schema("reason", reason=TEXT, note=TEXT))
    (result,) = compare(
        policy_of([ShopTool("refund", schema("reason", reason=TEXT))], PERMIT), policy_of([open_tool], PERMIT), SECONDS
    )
    assert result.example is not None
    assert result.example.arguments == {"reason": "", "note": ""}


def test_explain_says_for_every_tool_what_may_run() -> None:
    results = explain(OLD, SECONDS)
    assert [one.name for one in results if not one.is_certain] == []
    answers = {one.name: (one.answer, one.with_yes) for one in results}
    assert len(answers) == 20
    assert answers["find_order"] == (Answer.ALWAYS, Answer.ALWAYS)
    assert answers["pay"] == (Answer.NEVER, Answer.SOMETIMES)
    assert answers["cancel_order"] == (Answer.NEVER, Answer.SOMETIMES)
    assert answers["restock"] == (Answer.SOMETIMES, Answer.SOMETIMES)
    found = {one.name: str(one.example) for one in results}
    assert found["restock"] == 'restock(sku="TEST-", count=0)'
    assert found["pay"] == 'pay(iban="", amount=0)  [succeeded: login_bank]'
    assert found["set_price"] == 'set_price(sku="", price=0)  [roles: manager]'
    borders = {one.name: f"{one.otherwise} {one.otherwise.guard}" for one in results if one.otherwise is not None}
    assert borders.keys() == {name for name, answers_of_it in answers.items() if Answer.SOMETIMES in answers_of_it}
    assert borders["restock"] == 'restock(sku="", count=0) asks'
    assert borders["set_price"] == 'set_price(sku="", price=0) refused'


def proofs(promises: str, rules: str = RULES) -> dict[str, AnalysisResult]:
    results = prove(policy_of(SHOP, rules), ConditionsFile(promises, "promises.cedar", ROLES), SECONDS)
    assert [one.name for one in results if not one.is_certain] == []
    return {one.name: one for one in results}


def test_promises_are_proved_or_fail_with_an_example() -> None:
    found = proofs(
        """@id("who reported a payment had logged in") forbid (principal, action == Action::"report", resource)
when { context.attempted.contains(Action::"pay") && !context.succeeded.contains(Action::"login_bank") };
@id("2000 a day") forbid (principal, action == Action::"refund", resource) when { context.used.day.sum.amount > 2000 };
@id("1000 at once") forbid (principal, action == Action::"refund", resource) when { context.arguments.amount > 1000 };
@id("no mail outside after private data") forbid (principal, action == Action::"send_mail", resource)
when { context.attempted.contains(Action::"read_private") && context.domain.to.contains("evil.org") };
@id("prices by day") forbid (principal, action == Action::"set_price", resource) when { context.time.hour == 3 };
@id("support changes no price") forbid (principal in Role::"support", action == Action::"set_price", resource);"""
    )
    answers = {name: str(one.answer) for name, one in found.items()}
    assert answers == {
        "who reported a payment had logged in": "proved",
        "2000 a day": "proved",
        "1000 at once": "fails",
        "no mail outside after private data": "proved",
        "prices by day": "proved",
        "support changes no price": "fails",
    }
    assert str(found["1000 at once"].example) == 'refund(order="", amount=1001)  [roles: manager]'
    assert str(found["support changes no price"].example) == 'set_price(sku="", price=0)  [roles: manager, support]'


@pytest.mark.parametrize(
    ("right", "wrong", "promise"),
    [
        (
            "used.day.sum.amount > 2000",
            "used.hour.sum.amount > 2000",
            'refund", resource) when { context.used.day.sum.amount > 2000 };',
        ),
        (
            'unless { context.succeeded.contains(Action::"login_bank") }',
            'unless { context.succeeded.contains(Action::"login_bank") || context.confirmed }',
            'pay", resource) when { !context.succeeded.contains(Action::"login_bank") };',
        ),
    ],
)
def test_a_promise_that_a_mistake_breaks_fails(right: str, wrong: str, promise: str) -> None:
    text = f'@id("it") forbid (principal, action == Action::"{promise}'
    assert proofs(text)["it"].answer is Answer.PROVED
    assert proofs(text, RULES.replace(right, wrong))["it"].answer is Answer.FAILS


RECORD = schema("k", k=TEXT)
TWO_RECORDS = ShopTool("act", schema("a", "b", "n", a=RECORD, b=RECORD, n={"type": "integer"}))
DIFFER = "context.arguments.a != context.arguments.b"
"""A condition that is not encoded."""
UNENCODED = f'@id("differ") forbid (principal, action, resource) when {{ {DIFFER} }};'


def promised(rules: str, condition: str, *tools: ShopTool) -> AnalysisResult:
    """Return whether no accepted call meets a condition."""
    promises = ConditionsFile(f"forbid (principal, action, resource) when {{ {condition} }};")
    (result,) = prove(policy_of(tools or [TWO_RECORDS], rules), promises, SECONDS)
    return result


def test_what_depends_on_a_condition_that_is_not_encoded_is_unknown() -> None:
    policy = policy_of([TWO_RECORDS], PERMIT + UNENCODED)
    why = "'differ' is not encoded: `==` of records"
    (result,) = explain(policy, SECONDS)
    assert (result.answer, result.why) == (Answer.UNKNOWN, why)
    (change,) = compare(policy, policy_of([TWO_RECORDS], PERMIT), SECONDS)
    assert (change.answer, change.why, change.may_loosen) == (Change.NOT_COMPARED, why, True)


def test_what_does_not_depend_on_a_condition_that_is_not_encoded_is_known() -> None:
    never = "forbid (principal, action, resource);"
    (result,) = explain(policy_of([TWO_RECORDS], PERMIT + UNENCODED + never), SECONDS)
    assert (result.answer, result.with_yes) == (Answer.NEVER, Answer.NEVER)
    asks = "forbid (principal, action, resource) unless { context.confirmed };"
    (result,) = explain(policy_of([TWO_RECORDS], PERMIT + never + UNENCODED + asks), SECONDS)
    assert (result.answer, result.with_yes, result.is_certain) == (Answer.NEVER, Answer.NEVER, True)


def test_two_policies_with_the_same_condition_that_is_not_encoded_are_compared() -> None:
    small = "forbid (principal, action, resource) when { context.arguments.n > %d };"
    old, new = (policy_of([TWO_RECORDS], PERMIT + UNENCODED + small % limit) for limit in (5, 9))
    looser, tighter = compare(old, new, SECONDS), compare(new, old, SECONDS)
    assert shown(looser) == ['newly possible without a yes: act(a={"k": ""}, b={"k": ""}, n=6) (refused -> runs)']
    assert [one.answer for one in tighter] == [Change.REFUSED]
    assert shown(compare(old, policy_of([TWO_RECORDS], PERMIT + small % 5 + UNENCODED), SECONDS)) == []


WORDS = {"type": "array", "items": TEXT}
TWO_LISTS = ShopTool("act", schema("a", "b", "s", a=WORDS, b=WORDS, s=TEXT))


@pytest.mark.parametrize(
    ("kept", "promise", "answer"),
    [
        ("{a}.containsAll({b})", '{b}.contains("x") && !{a}.contains("x")', Answer.PROVED),
        ("{a}.containsAll({b})", "{b}.contains({s}) && !{a}.contains({s})", Answer.FAILS),
        ("{a}.containsAll({b})", "!{b}.containsAll({a})", Answer.FAILS),
        ("{a}.containsAll({b})", "!{b}.isEmpty() && {a}.isEmpty()", Answer.PROVED),
        ("!{a}.containsAny({b})", '{a}.contains("x") && {b}.contains("x")', Answer.PROVED),
        ("!{a}.containsAny({b})", "{b}.containsAny({a})", Answer.FAILS),
        ("{a}.containsAny({b})", "{a}.isEmpty()", Answer.PROVED),
        ("{a}.containsAny({b})", "{a}.containsAll({b})", Answer.FAILS),
        ("{a}.containsAll({a})", "{b}.isEmpty()", Answer.FAILS),
        ("{a}.containsAll({b})", "!{a}.containsAll({a})", Answer.PROVED),
    ],
)
def test_sets_of_two_arguments_are_compared(kept: str, promise: str, answer: Answer) -> None:
    def written(condition: str) -> str:
        return condition.format(**{name: f"context.arguments.{name}" for name in "abs"})

    rules = f"forbid (principal, action, resource) unless {{ {written(kept)} }};"
    found = promised(PERMIT + rules, written(promise), TWO_LISTS)
    assert (found.answer, found.example is None) == (answer, answer is Answer.PROVED)


def test_a_promise_is_proved_without_a_forbid_that_is_not_encoded() -> None:
    small = "forbid (principal, action, resource) when { context.arguments.n > 5 };"
    found = promised(PERMIT + UNENCODED + small, "context.arguments.n > 9")
    assert (found.answer, found.why) == (Answer.PROVED, "")
    # Also if only one of its clauses is not encoded, and if it only asks.
    asks = UNENCODED.replace(";", " unless { context.confirmed };")
    assert promised(PERMIT + asks + small, "context.arguments.n > 9").answer is Answer.PROVED


def test_a_counterexample_found_without_a_rule_counts_only_if_the_guard_confirms_it() -> None:
    found = promised(PERMIT + UNENCODED, "context.arguments.n > 9")
    assert (found.answer, found.is_certain) == (Answer.FAILS, True)
    found = promised(PERMIT + UNENCODED, 'context.arguments.a.k == "x" && context.arguments.b.k == "y"')
    assert (found.answer, found.example) == (Answer.UNKNOWN, None)
    assert found.why == "'differ' is not encoded: `==` of records"
    found = promised(PERMIT + UNENCODED, DIFFER)
    assert (found.answer, found.why) == (Answer.UNKNOWN, "`==` of records")


def test_a_permit_that_is_not_encoded_permits_whatever_it_may() -> None:
    permit = f'@id("differ") permit (principal, action, resource) when {{ {DIFFER} && context.arguments.n < 5 }};'
    found = promised(permit, "context.arguments.n > 9")
    assert (found.answer, found.why) == (
        Answer.UNKNOWN,
        "'differ' is not encoded: `==` of records",
    )
    small = "forbid (principal, action, resource) when { context.arguments.n > 5 };"
    assert promised(permit + small, "context.arguments.n > 9").answer is Answer.PROVED


def test_a_promise_about_what_was_called_is_proved_without_a_forbid_that_is_not_encoded() -> None:
    login, pay, act = (
        ShopTool("login", schema()),
        ShopTool("pay", schema("a", "b", a=RECORD, b=RECORD)),
        ShopTool("act", schema()),
    )
    rules = UNENCODED.replace("action,", 'action == Action::"pay",')
    rules += 'forbid (principal, action == Action::"pay", resource) unless { context.succeeded.contains(Action::"login") };'
    promise = 'context.attempted.contains(Action::"pay") && !context.succeeded.contains(Action::"login")'
    assert promised(PERMIT + rules, promise, login, pay, act).answer is Answer.PROVED


MONEY = ShopTool("pay", schema("amount", amount={"anyOf": [{"type": "number", "maximum": 9000}, {"type": "string"}]}))
IS_LARGE = 'context.arguments.amount has decimal && context.arguments.amount.decimal.greaterThan(decimal("%s.0"))'


def test_a_promise_about_an_amount_is_about_the_texts_that_are_one_too() -> None:
    small = f"forbid (principal, action, resource) when {{ {IS_LARGE % 100} }};"
    assert promised(PERMIT + small, IS_LARGE % 5000, MONEY).answer is Answer.PROVED
    # Every text is a number for the rules, so none is without one.
    assert promised(PERMIT + small, "!(context.arguments.amount has decimal)", MONEY).answer is Answer.PROVED
    by_text = "forbid (principal, action, resource) unless { context.arguments.amount has string };"
    found = promised(PERMIT + by_text, IS_LARGE % 5000, MONEY)
    assert (found.answer, found.is_certain) == (Answer.FAILS, True)
    assert found.example is not None
    assert found.example.arguments == {"amount": "5000.0001"}
    # A text has no maximum, whatever the schema says of numbers.
    assert promised(PERMIT + by_text, IS_LARGE % 9000, MONEY).answer is Answer.FAILS
    is_word = 'context.arguments.amount has string && context.arguments.amount.string == "x"'
    words = f"forbid (principal, action, resource) when {{ {is_word} }};"
    found = promised(PERMIT + small + words, "!(context.arguments.amount has decimal)", MONEY)
    assert (found.answer, found.is_certain) == (Answer.FAILS, True)


def test_a_budget_of_an_amount_that_may_be_a_text_is_proved() -> None:
    total = 'context.used.day.sum.amount.greaterThan(decimal("%s.0"))'
    day = f"forbid (principal, action, resource) when {{ {total % 100} }};"
    assert promised(PERMIT + day, total % 100, MONEY).answer is Answer.PROVED
    assert promised(PERMIT + day, IS_LARGE % 100, MONEY).answer is Answer.PROVED
    found = promised(PERMIT + day, total % 99, MONEY)
    assert (found.answer, found.is_certain) == (Answer.FAILS, True)


def test_an_example_has_the_domain_that_a_rule_reads() -> None:
    rules = PERMIT + 'forbid (principal, action, resource) unless { ["%s"].containsAll(context.domain.url) };'
    get = ShopTool("get", schema("url", url=TEXT))
    for domain in ("example.com", "?", ""):
        (result,) = explain(policy_of([get], rules % domain), SECONDS)
        assert result.is_certain, result


def test_an_example_that_the_guard_does_not_confirm_is_uncertain() -> None:
    # Neither the solver nor the samples know the pattern, so the example has a sku that the guard refuses.
    tool = ShopTool("act", schema("sku", sku={"type": "string", "pattern": "^(?=A)[A-Z]{3}$"}))
    (result,) = explain(policy_of([tool], PERMIT), SECONDS)
    assert (result.is_certain, result.example is not None and result.example.guard) == (False, "refused")


def test_an_example_has_texts_that_match_the_patterns_of_the_schema() -> None:
    tool = ShopTool("act", schema("sku", "old", sku={"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"}, old=TEXT))
    same = "forbid (principal, action, resource) unless { context.arguments.sku == context.arguments.old };"
    for rules in (PERMIT, PERMIT + same):
        (result,) = explain(policy_of([tool], rules), SECONDS)
        assert result.is_certain
        assert result.example is not None
        assert result.example.arguments == {"sku": "AAA-0", "old": "" if rules == PERMIT else "AAA-0"}


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^FH-[0-9]{4}$", "FH-0000"),
        (r"^\d{4}-\d{2}$", "0000-00"),
        ("^(?:x|y)?z$", "z"),
        ("(ab|c)+d", "abd"),
        ("[^a]b", "^b"),
        (r"[\]x]{2,}", "]]"),
        (r"^\S+@\S+$", "a@a"),
        (r"^\+?[1-9]\d{1,14}$", "10"),
        (r"\bfoo", None),
        ("(?=a)b", None),
        ("(", None),
        ("[", None),
        ("x{99999}", None),
    ],
)
def test_a_sample_matches_its_pattern(pattern: str, text: str | None) -> None:
    assert matching_text(pattern, "$") == text
    assert matching_text(pattern, text or "$") == text


def test_lengths_of_the_schema_are_kept_by_examples() -> None:
    words = {"type": "array", "items": TEXT, "minItems": 2}
    tool = ShopTool("act", schema("text", "words", text={"type": "string", "minLength": 3}, words=words))
    (result,) = explain(policy_of([tool], PERMIT), SECONDS)
    assert result.is_certain
    assert result.example is not None
    assert len(result.example.arguments["text"]) >= 3
    assert len(result.example.arguments["words"]) == 2


def test_promises_are_forbid_rules_that_fit_the_tools() -> None:
    for text, message in (
        (PERMIT, "have a permit"),
        ('\nforbid (principal, action == Action::"no", resource);', "promises.cedar, line 2: unrecognized action"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            proofs(text)


def test_a_promise_about_all_changes_holds_where_no_tool_changes_anything() -> None:
    reads = policy_of([tool for tool in SHOP if tool.reads], PERMIT)
    promise = 'forbid (principal, action in Action::"all writes", resource) unless { context.confirmed };'
    (proved,) = prove(reads, ConditionsFile(promise), SECONDS)
    assert (proved.answer, proved.why, proved.is_certain) == (Answer.PROVED, "it is about no tool", True)
    assert [one.answer for one in prove(policy_of(SHOP, PERMIT), ConditionsFile(promise), SECONDS)] == [Answer.FAILS]


def test_a_rule_whose_resource_is_no_server_says_that_it_is_about_no_tool() -> None:
    rule = '\nforbid (principal, action == Action::"refund", resource is User);'
    with pytest.raises(ConfigurationError, match=r"promises\.cedar, line 2: no tool is in the scope of this rule"):
        proofs(rule)


@pytest.mark.parametrize(
    "expression", ["{x}.isEmpty()", "!{x}", "-{x} < 1", '{x} like "a*"', "{x} is User", "if {x} then true else true"]
)
def test_a_condition_that_fails_for_every_call_of_a_tool_refuses_it(expression: str) -> None:
    written = expression.format(x="context.arguments.missing")
    act = policy_of([ShopTool("act", schema())], PERMIT)
    rules = f"{PERMIT}forbid (principal, action, resource) when {{ {written} }};"
    (result,) = explain(act.with_conditions(ConditionsFile(rules)), SECONDS)
    assert (result.answer, result.with_yes, result.is_certain) == (Answer.NEVER, Answer.NEVER, True)


def test_a_rule_in_the_shadow_decides_nothing_until_its_annotation_is_removed() -> None:
    rule = (
        '@id("no big refunds") forbid (principal, action == Action::"refund", resource) when { context.arguments.amount > 90 };'
    )
    plain, shadow, enforced = (policy_of([REFUND], PERMIT + text) for text in ("", f"@shadow {rule}", rule))
    assert compare(plain, shadow, SECONDS) == []
    assert [one.answer for one in explain(shadow, SECONDS)] == [Answer.ALWAYS]
    (removed,) = compare(shadow, enforced, SECONDS)
    assert (removed.answer, removed.is_certain) == (Change.REFUSED, True)
    promise = ConditionsFile(rule)
    assert [one.answer for one in prove(shadow, promise, SECONDS)] == [Answer.FAILS]
    assert [one.answer for one in prove(enforced, promise, SECONDS)] == [Answer.PROVED]
    with pytest.raises(ConfigurationError, match="a promise must hold"):
        prove(enforced, ConditionsFile(f"@shadow {rule}"), SECONDS)
