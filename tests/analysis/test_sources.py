"""Questions to the solver about conditions that read where a value comes from."""

from __future__ import annotations

import pytest

from graph_agent.analysis.questions import AnalysisResult, Answer, prove
from graph_agent.bootstrap.policies import draft_conditions
from graph_agent.policy.cedar.conditions import ConditionsFile
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
