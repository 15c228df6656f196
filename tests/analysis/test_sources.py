"""Questions to the solver about conditions that read where a value comes from, compared with what the finder gives."""

from __future__ import annotations

import pytest

from graph_agent.analysis import symbols
from graph_agent.analysis.comparison import compare
from graph_agent.analysis.questions import AnalysisResult, Answer, prove
from graph_agent.bootstrap.policies import draft_conditions
from graph_agent.policy.cedar.conditions import ConditionsFile
from graph_agent.policy.cedar.types import Kind
from graph_agent.policy.sourced_values import SourceCount, source_count
from graph_agent.policy.sources import SourceFinder
from tests.analysis.random_sources import PARTS, Found, RandomSources, check, newly_possible
from tests.policy.cedar_shop import PERMIT, SHOP, policy_of

TOOLS = [tool for tool in SHOP if tool.name in ("pay", "read_mail", "send_mail", "tag")]
PROMISES = (
    '@id("no money to a foreign account") forbid (principal, action == Action::"pay", resource)\n'
    'when { context.tainted && !(["user"].containsAll(context.source.iban)) } unless { context.confirmed };\n'
    '@id("no tags of others") forbid (principal, action == Action::"tag", resource)\n'
    'when { context.source.tags.contains("untrusted") } unless { context.confirmed };'
)


def asked(rules: str, promises: str = PROMISES) -> dict[str, AnalysisResult]:
    return {one.name: one for one in prove(policy_of(TOOLS, rules), ConditionsFile(promises), seconds=10)}


def test_the_drafted_rules_keep_money_and_tags_from_foreign_texts() -> None:
    found = asked(draft_conditions(policy_of(TOOLS, None).actions, ()))
    assert {name: (one.answer, one.is_certain) for name, one in found.items()} == {
        "no money to a foreign account": (Answer.PROVED, True),
        "no tags of others": (Answer.PROVED, True),
    }


def test_a_rule_about_copies_alone_fails_by_a_value_that_stands_nowhere() -> None:
    copies = PERMIT + (
        '@id("no copies") forbid (principal, action in Action::"all writes", resource)\n'
        'when { context.sources.contains("untrusted") } unless { context.confirmed };'
    )
    found = asked(copies)
    assert found["no tags of others"].answer is Answer.PROVED
    failed = found["no money to a foreign account"]
    assert failed.answer is Answer.FAILS
    assert failed.example is not None
    assert failed.example.confirmed
    assert failed.example.state["tainted"] is True
    assert failed.example.state["sources"]["iban"] in ("model", "trusted")


@pytest.mark.parametrize(
    "promise",
    [
        'when { !context.tainted && context.sources.contains("untrusted") }',
        'when { context.source.iban.contains("untrusted") && !context.sources.contains("untrusted") }',
        'when { context.source.iban.containsAll(["user", "model"]) }',
        "when { context.source.iban.isEmpty() }",
    ],
)
def test_what_no_call_can_have_is_proved_without_any_rule(promise: str) -> None:
    text = f'@id("impossible") forbid (principal, action == Action::"pay", resource) {promise};'
    assert asked(PERMIT, text)["impossible"].answer is Answer.PROVED


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(100, 700), marks=pytest.mark.nightly)])
def test_no_call_with_sources_that_the_finder_gives_breaks_a_promise_that_is_proved(seeds: range) -> None:
    found = Found()
    for seed in seeds:
        check(seed, found)
    assert found.broken == []
    assert found.proved > 3 * len(seeds)
    assert found.accepted > 100 * len(seeds)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(1000, 4000), marks=pytest.mark.nightly)])
def test_every_call_that_runs_by_other_sources_is_reported_by_diff(seeds: range) -> None:
    looser = 0
    for seed in seeds:
        made = RandomSources(seed)
        old, new = made.pair()
        calls = list(newly_possible(old, new, made, 40))
        reported = {one.name for one in compare(old, new, 10) if one.may_loosen} if calls else set()
        assert set(calls) <= reported, seed
        looser += len(calls)
    assert looser > len(seeds)


@pytest.mark.nightly
def test_a_source_of_a_list_of_switches_is_found_by_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    # A planted mistake: the solver takes switches for values that have a source.
    monkeypatch.setattr(symbols, "source_count", lambda type_: SourceCount.EACH if type_.kind is Kind.SET else SourceCount.ANY)
    found = Found()
    for seed in range(60):
        check(seed, found)
        if found.broken:
            return
    pytest.fail("the planted mistake was not found")


@pytest.mark.parametrize("seed", range(12))
def test_an_argument_has_as_many_sources_as_its_type_says(seed: int) -> None:
    made = RandomSources(seed)
    policy = made.policy()
    (action,) = [one for one in policy.actions if one.name == "t"]
    for context, earlier, reads, call in made.conversations(30):
        found = SourceFinder(context, policy, earlier).sources([call], reads).calls[0]
        for argument, path in PARTS.items():
            assert {*found.labels_of_part(argument, path)} <= {*found.labels(argument)}
        for name, value in call.arguments.items() if call.name == "t" else ():
            declared = action.arguments.field(name)
            labels, given = found.labels(name), value is not None
            counts = SourceCount.ANY if declared is None else source_count(declared.type)
            fits = {
                SourceCount.NONE: not labels,
                SourceCount.ONE: len(labels) == given,
                SourceCount.EACH: bool(labels) is (given and value != []),
                SourceCount.ANY: True,
            }
            assert fits[SourceCount.NONE if name == action.bound_argument else counts], (name, value, labels)
