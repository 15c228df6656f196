"""The analysis of conditions on facts: proofs hold for any results, and examples name those that they assume."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from graph_agent.analysis.comparison import compare
from graph_agent.analysis.questions import AnalysisResult, Answer, Change, explain, prove
from graph_agent.errors import ConfigurationError
from graph_agent.models.tools import ToolTraits
from graph_agent.policy.cedar.conditions import ConditionsFile, Verdict
from graph_agent.policy.compiled import CompiledPolicy
from tests.analysis.random_fact_edits import OUTPUT, RandomFactEdits, is_looser, policy_about, verdict
from tests.analysis.random_policies import RandomPolicies
from tests.policy.cedar_shop import PERMIT, TEXT, ShopTool, policy_of, schema

SECONDS = 300.0
LINES = {"type": "array", "items": schema("sku", sku=TEXT)}
TOOLS = [
    ShopTool("get_order", schema("order_id", order_id=TEXT), reads=True),
    ShopTool("find_customer", schema("mail", mail=TEXT), reads=True),
    ShopTool("cancel", schema("order_id", order_id=TEXT)),
    ShopTool("give_back", schema("order_id", "to", order_id=TEXT, to=TEXT, skus={"type": "array", "items": TEXT})),
    ShopTool("book", schema("lines", lines=LINES)),
]
READ = "get_order(order_id = arguments.order_id)"
FACTS = f"""- order: {READ}
- paid_with: order $.payments[0].method
- skus: order $.lines[*].sku
- methods: last find_customer $.methods[*].id
- booked: arguments $.lines[*].sku
@id("base") permit (principal, action, resource);
"""
ORDER = "context.result has order && context.result.order"
PENDING = (
    f'@id("only pending") forbid (principal, action == Action::"cancel", resource) unless {{ {ORDER}.status == "pending" }};'
)
OPEN = f'@id("open") forbid (principal, action == Action::"cancel", resource) unless {{ {ORDER}.status != "closed" }};'
BACK = """@id("only back") forbid (principal, action == Action::"give_back", resource)
unless { (context.result has paid_with && context.result.paid_with == context.arguments.to) ||
  (context.result has methods && context.result.methods.contains(context.arguments.to)) };
@id("of the order") forbid (principal, action == Action::"give_back", resource)
when { context.arguments has skus }
unless { context.result has skus && context.result.skus.containsAll(context.arguments.skus) };"""


def policy(rules: str, facts: str = FACTS) -> CompiledPolicy:
    return policy_of(TOOLS, facts + rules)


def proved(rules: str, tool: str, condition: str) -> AnalysisResult:
    promise = f'@id("it") forbid (principal, action == Action::"{tool}", resource) when {{ {condition} }};'
    (result,) = prove(policy(rules), ConditionsFile(promise, "promises.cedar"), SECONDS)
    return result


@pytest.mark.parametrize(
    ("tool", "condition"),
    [
        ("cancel", f'{ORDER}.status == "delivered"'),
        ("cancel", f'{ORDER}.status like "d*"'),
        ("cancel", f'{ORDER}.total > 100 && {ORDER}.status == "delivered"'),
        ("cancel", "!(context.result has order)"),
        ("give_back", 'context.arguments.to == "x" && !(context.result has paid_with) && !(context.result has methods)'),
        ("give_back", 'context.arguments has skus && context.arguments.skus.contains("a") && !(context.result has skus)'),
        (
            "give_back",
            'context.arguments has skus && context.arguments.skus.contains("a") && context.result has skus '
            '&& !context.result.skus.contains("a")',
        ),
    ],
)
def test_a_promise_about_facts_is_proved(tool: str, condition: str) -> None:
    found = proved(PENDING + BACK, tool, condition)
    assert (found.answer, found.example) == (Answer.PROVED, None)


@pytest.mark.parametrize(
    ("tool", "condition", "example"),
    [
        ("cancel", f'{ORDER}.status == "pending"', 'cancel(order_id="")  [facts: order.status="pending"]'),
        (
            "cancel",
            f'{ORDER}.placed < datetime("2026-01-01")',
            'cancel(order_id="")  [facts: order.placed="1970-01-01T00:00:00.000+00:00", order.status="pending"]',
        ),
        ("cancel", f"!({ORDER} has paid)", 'cancel(order_id="")  [facts: order.status="pending"]'),
        ("give_back", "context.result has paid_with", 'give_back(order_id="", to="")  [facts: paid_with=""]'),
        (
            "give_back",
            'context.arguments.to == "x" && !(context.result has paid_with)',
            'give_back(order_id="", to="x")  [facts: methods=["x"]]',
        ),
        (
            "give_back",
            'context.arguments has skus && context.arguments.skus.contains("a")',
            'give_back(order_id="", to="", skus=["a"])  [facts: paid_with="", skus=["a"]]',
        ),
    ],
)
def test_an_example_names_the_facts_that_it_assumes(tool: str, condition: str, example: str) -> None:
    found = proved(PENDING + BACK, tool, condition)
    assert (found.answer, str(found.example), found.is_certain) == (Answer.FAILS, example, True)


def test_a_promise_that_uses_a_fact_as_another_type_is_unknown() -> None:
    found = proved(PENDING, "cancel", f"{ORDER}.status == 5")
    assert (found.answer, found.why) == (Answer.UNKNOWN, "the type of 'context.result.order.status' changed")
    with pytest.raises(ConfigurationError, match="no line of the constitution declares the fact 'other'"):
        proved(PENDING, "cancel", "context.result has other")


def test_explain_shows_a_call_on_each_side_of_a_fact() -> None:
    found = {one.name: one for one in explain(policy(PENDING), SECONDS)}
    cancel = found["cancel"]
    assert (cancel.answer, cancel.is_certain) == (Answer.SOMETIMES, True)
    assert (str(cancel.example), str(cancel.otherwise)) == (
        'cancel(order_id="")  [facts: order.status="pending"]',
        'cancel(order_id="")',
    )


def test_a_difference_about_facts_is_shown_with_the_facts() -> None:
    wider = PENDING.replace('== "pending"', 'like "pending*"')
    (change,) = compare(policy(PENDING), policy(wider), SECONDS)
    assert (change.answer, change.is_certain) == (Change.RUNS, True)
    assert change.example is not None
    assert change.example.state["facts"]["order"]["status"] != "pending"
    assert change.example.guard == "refused -> runs"
    # A field that only one of them needs.
    stricter = PENDING.replace('== "pending"', '== "pending" && context.result.order.total > 3')
    (change,) = compare(policy(PENDING), policy(stricter), SECONDS)
    assert (change.answer, change.is_certain) == (Change.REFUSED, True)
    assert compare(policy(PENDING), policy(PENDING), SECONDS) == []


def test_a_fact_that_is_declared_otherwise_is_not_compared() -> None:
    (change,) = compare(policy(PENDING), policy(PENDING, FACTS.replace(READ, "last get_order")), SECONDS)
    assert (change.answer, change.why, change.may_loosen) == (
        Change.NOT_COMPARED,
        "the fact 'order' is declared otherwise",
        True,
    )
    # Also where only what it is made from changes.
    other = BACK.replace("context.result has skus", "true && context.result has skus")
    changes = compare(policy(BACK), policy(other, FACTS.replace(READ, "last get_order")), SECONDS)
    assert [(one.name, one.answer) for one in changes] == [("give_back", Change.NOT_COMPARED)]


def test_a_fact_that_is_no_longer_read_is_named() -> None:
    idle = f'@id("idle") forbid (principal, action == Action::"cancel", resource) when {{ {ORDER}.a == "b" && false }};'
    changes = compare(policy(idle), policy(""), SECONDS)
    why = "conditions no longer read the fact 'order', so a call is no longer refused if it cannot be read"
    assert [(one.answer, one.why) for one in changes] == [(Change.NOT_COMPARED, why)]


@pytest.mark.parametrize("used", ["{} < context.time.now", '{} == "open"', "{}"])
def test_a_field_of_a_fact_that_is_no_longer_read_is_named(used: str) -> None:
    def idle(clause: str) -> str:
        return f'@id("idle") forbid (principal, action == Action::"cancel", resource) when {{ {ORDER} has a && {clause} }};'

    read = idle(f"{used.format(f'{ORDER}.a')} && false")
    changes = compare(policy(read), policy(idle("false")), SECONDS)
    why = "conditions no longer read the fact 'order.a', so a call is no longer refused if it cannot be read"
    assert [(one.answer, one.why) for one in changes if one.may_loosen] == [(Change.NOT_COMPARED, why)]
    assert [one for one in compare(policy(idle("false")), policy(read), SECONDS) if one.may_loosen] == []


def test_a_value_outside_the_output_schema_that_no_condition_reads_any_more_is_newly_possible() -> None:
    about = 'forbid (principal, action == Action::"pay", resource) when {{ context.result has o && {} }};'
    light = about.format("context.result.o has weight && context.result.o.weight > 9")
    kept = about.format('context.result.o.kind == "x"')
    changes = compare(policy_about([light, kept], OUTPUT), policy_about([kept], OUTPUT), SECONDS)
    (example,) = [one.example for one in changes if one.answer is Change.RUNS]
    assert example is not None
    assert example.confirmed
    assert example.state["facts"]["o"]["weight"] not in range(1, 10)


def check_fact_edits(seeds: range) -> int:
    """Return how many of the random calls are newly possible. Each of them must be reported."""
    looser = 0
    for seed in seeds:
        edits = RandomFactEdits(seed)
        old, new = edits.pair()
        calls = [
            (tool, data) for tool, data in edits.calls(60) if is_looser(verdict(old, tool, data), verdict(new, tool, data))
        ]
        reported = {one.name for one in compare(old, new, SECONDS) if one.may_loosen} if calls else set()
        assert [one for one in calls if one[0] not in reported] == [], seed
        looser += len(calls)
    return looser


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(1000, 2000), marks=pytest.mark.nightly)])
def test_every_call_that_an_edit_of_rules_about_facts_newly_permits_is_reported(seeds: range) -> None:
    assert check_fact_edits(seeds) > 5 * len(seeds)


def test_what_facts_see_of_a_list_of_objects_is_not_hidden() -> None:
    hidden = '@id("hidden") forbid (principal, action == Action::"book", resource) unless { context.hidden.isEmpty() };'
    booked = (
        '@id("few") forbid (principal, action == Action::"book", resource) '
        'unless { context.result has booked && ["a"].containsAll(context.result.booked) && context.length.lines < 3 };'
    )
    (unseen,) = [one for one in explain(policy(hidden), SECONDS) if one.name == "book"]
    (seen,) = [one for one in explain(policy(hidden + booked), SECONDS) if one.name == "book"]
    assert (unseen.answer, seen.answer, seen.is_certain) == (Answer.NEVER, Answer.SOMETIMES, True)
    assert proved(hidden + booked, "book", "context.length.lines > 2").answer is Answer.PROVED
    (change,) = compare(policy(hidden), policy(hidden + booked), SECONDS)
    assert (change.answer, change.may_loosen) == (Change.NOT_COMPARED, True)


def test_a_value_that_only_the_new_output_schema_has_is_newly_possible() -> None:
    def served(*values: str) -> CompiledPolicy:
        made = policy(OPEN)
        traits = ToolTraits(read_only=True, output=schema(status={"type": "string", "enum": list(values)}))
        rule = made.rules["get_order"]
        rules = {**made.rules, "get_order": replace(rule, traits=traits)}
        assert made.conditions is not None
        return replace(made, rules=rules, conditions=None).with_conditions(made.conditions.file)

    changes = compare(served("open", "closed"), served("open", "closed", "lost"), SECONDS)
    assert [(one.name, str(one.example), one.answer, one.is_certain) for one in changes] == [
        ("get_order", "None", Change.NOT_COMPARED, False),
        ("cancel", 'cancel(order_id="")  [facts: order.status="lost"]', Change.RUNS, True),
    ]


@pytest.mark.parametrize(("pairs", "seed"), [(20, 1), pytest.param(300, 2, marks=pytest.mark.nightly)])
def test_no_random_call_breaks_a_random_promise_that_is_proved(pairs: int, seed: int) -> None:
    made, answers = RandomPolicies(seed, with_facts=True), Counter[Answer | Change]()
    while answers.total() < pairs or len(answers) < 2:
        accepted, promises = made.policy(), ConditionsFile(made.promise(), roles=("p", "q"))
        try:
            (found,) = prove(accepted, promises, SECONDS)
            forbidden = accepted.with_conditions(replace(promises, text=f"{PERMIT}{promises.text}")).conditions
        except ConfigurationError:
            continue  # It does not fit the tools.
        answers[found.answer] += 1
        assert accepted.conditions is not None
        assert forbidden is not None
        for arguments, situation in (made.call() for _ in range(30 if found.answer is Answer.PROVED else 0)):
            assert situation.facts is not None
            # The proof is about the states that accepted calls lead to, such as that of a new conversation.
            facts = situation.facts.model_copy(update={"succeeded": [], "attempted": []})
            first = replace(situation, facts=facts, earlier=[])
            if accepted.conditions.judge("t", arguments, first).verdict is Verdict.RUNS:
                assert "it" not in forbidden.judge("t", arguments, first).reasons


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ('when { context.arguments.order_id == "x" }', Answer.PROVED),
        ('unless { context.arguments.order_id != "x" && context.result has customer }', Answer.UNKNOWN),
    ],
)
def test_a_promise_about_a_read_counts_the_reads_of_the_runtime(rule: str, answer: Answer) -> None:
    # The runtime reads the order of each call of `cancel`, and conditions that name facts do not judge this read.
    declared = FACTS.replace("- paid_with", "- customer: last find_customer\n- paid_with")
    restricted = f'@id("by rule") forbid (principal, action == Action::"get_order", resource) {rule};'
    promise = (
        '@id("it") forbid (principal, action == Action::"get_order", resource) when { context.arguments.order_id == "x" };'
    )
    (found,) = prove(policy(PENDING + restricted, declared), ConditionsFile(promise, "promises.cedar"), SECONDS)
    assert found.answer is answer
    assert ("may read 'get_order' by itself" in found.why) is (answer is Answer.UNKNOWN)


MADE = (
    FACTS
    + """- left: one order $.cards[?@.id == arguments.to].left
- total: sum order $.lines[*].price
- due: total * left
"""
)
BELOW = """@id("below") forbid (principal, action == Action::"give_back", resource)
unless { context.result has left && context.result has due && context.result has total &&
  context.result.left.lessThan(context.result.due) && context.result.due.lessThan(context.result.total) };"""


def test_a_proof_about_facts_that_are_made_of_others_holds_for_any_values() -> None:
    made = policy(BELOW, MADE)
    promises = (
        '@id("order") forbid (principal, action == Action::"give_back", resource) '
        "unless { context.result has left && context.result has total && context.result.left.lessThan(context.result.total) };"
        '@id("amount") forbid (principal, action == Action::"give_back", resource) '
        'when { context.result has due && context.result.due.greaterThan(decimal("5.0")) };'
    )
    kept, broken = prove(made, ConditionsFile(promises, "promises.cedar"), SECONDS)
    assert (kept.answer, broken.answer, broken.is_certain) == (Answer.PROVED, Answer.FAILS, True)


@pytest.mark.parametrize(
    ("line", "other"),
    [("?@.id == arguments.to", "?@.id == arguments.order_id"), ("sum order", "count order"), ("total * left", "total * total")],
)
def test_a_fact_that_is_made_otherwise_is_not_compared(line: str, other: str) -> None:
    rules = BELOW if line != "sum order" else BELOW.replace("context.result.due.lessThan(context.result.total)", "true")
    (change,) = compare(policy(rules, MADE), policy(rules, MADE.replace(line, other)), SECONDS)
    assert (change.answer, change.may_loosen) == (Change.NOT_COMPARED, True)
