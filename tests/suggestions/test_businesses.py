"""What the suggested rules permit and find, on the records of three kinds of businesses."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from graph_agent.policy.cedar.conditions import Verdict
from graph_agent.suggestions.effect import Judge
from graph_agent.suggestions.evidence import Evidence
from graph_agent.suggestions.rules import Asked, policy_text, suggested
from graph_agent.suggestions.seen import SeenCalls
from tests.policy.cedar_shop import policy_of
from tests.suggestions.businesses import BUSINESSES, KINDS, Business, decisions
from tests.suggestions.other_businesses import OTHER_BUSINESSES

ENOUGH = 5


def suggestion(business: Business, seed: int = 1, count: int = 10_000) -> str:
    policy = policy_of(business.tools, None, business.roles)
    evidence, seen = Evidence(policy.actions, "UTC", ENOUGH), SeenCalls(policy)
    for made in decisions(business, count, seed):
        evidence.read(seen, made.record)
    evidence.end()
    rules, _ = suggested(evidence, Asked(ENOUGH, business.roles, more=True))
    return policy_text(rules, evidence, ENOUGH)


def figures(business: Business, text: str, seed: int = 2, count: int = 10_000) -> tuple[float, dict[str, float]]:
    """Return the share of ordinary decisions that run, and the share of each kind of excess that does not."""
    policy = policy_of(business.tools, text, business.roles)
    assert policy.conditions is not None
    judge = Judge(policy.conditions).judge
    seen, ran, total = SeenCalls(policy), Counter[str | None](), Counter[str | None]()
    for made in decisions(business, count, seed):
        decided = [judge(call).verdict for call in seen.of(made.record)]
        total[made.planted] += 1
        ran[made.planted] += all(one is Verdict.RUNS for one in decided)
    return ran[None] / total[None], {kind: 1 - ran[kind] / total[kind] for kind in KINDS}


@pytest.mark.parametrize("business", [*BUSINESSES, *OTHER_BUSINESSES], ids=lambda one: one.name)
def test_ordinary_calls_run_and_the_planted_excess_does_not(business: Business) -> None:
    ordinary, found = figures(business, suggestion(business, count=4000), count=2000)
    assert ordinary >= 0.95
    assert min(found.values()) >= 0.9


def test_the_same_record_gives_the_same_file_and_names_no_user_and_no_value_of_one() -> None:
    text = suggestion(BUSINESSES[0], count=2000)
    assert text == suggestion(BUSINESSES[0], count=2000)
    assert not re.search(r"u\d|evil|p\d{4}|@(?!id)", text)
