"""The words of the reasons for which a call is not made."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.policy.reasons import Reason, ReasonCode
from graph_agent.words.reasons import conditions_that_refused, for_model, for_user

RULES: tuple[Any, ...] = ("only pending", "only pending (order: status = 'shipped')")
VALUES: dict[ReasonCode, tuple[Any, ...]] = {
    ReasonCode.UNAVAILABLE: (None,),
    **dict.fromkeys((ReasonCode.TOO_MANY_AT_ONCE, ReasonCode.TOO_MANY_CALLS, ReasonCode.LIMIT_PER_MESSAGE), (5,)),
    ReasonCode.TOO_MANY_REQUESTS: (5,),
    ReasonCode.SET_BY_RUNTIME: ("key",),
    ReasonCode.MISFIT: ("/amount", "it is no number"),
    **dict.fromkeys((ReasonCode.CONDITIONS, ReasonCode.AWAITS_USER, ReasonCode.AWAITS_OTHERS), RULES),
    **dict.fromkeys((ReasonCode.WOULD_BE_ASKED, ReasonCode.WOULD_WAIT), RULES),
    ReasonCode.NOT_COMPARED: ("it was not found",),
    ReasonCode.CHANGED_SINCE: ("order W1", "address.city", "Kiel", None),
    ReasonCode.UNDONE_ALREADY: ("d1",),
    ReasonCode.REQUESTED_ALREADY: ("r1",),
    ReasonCode.DENIED: ("Denied by 'eve' as manager",),
    ReasonCode.GIVEN: ("one {0} at a time", "one at a time", "cool-down"),
}


@pytest.mark.parametrize("code", ReasonCode)
def test_each_reason_has_a_text_for_the_model_and_a_clause_for_the_user(code: ReasonCode) -> None:
    reason = Reason(code, VALUES.get(code, ()))
    assert for_model(reason)
    clause = for_user(reason)
    assert clause
    assert not clause.endswith(".")


def test_the_facts_that_a_rule_has_read_are_for_the_user_alone() -> None:
    reason = Reason(ReasonCode.CONDITIONS, RULES)
    assert for_model(reason) == "not permitted: only pending"
    assert for_user(reason) == "only pending (order: status = 'shipped')"


def test_a_text_of_an_application_has_no_places() -> None:
    assert for_model(Reason(ReasonCode.GIVEN, VALUES[ReasonCode.GIVEN])) == "one {0} at a time (cool-down)"


@pytest.mark.parametrize(
    ("gate", "error", "names"),
    [
        ("conditions", "not permitted: only pending", "only pending"),
        ("budget", "not permitted: 1000 a day", "1000 a day"),
        ("consent", "waiting for the user's confirmation (only pending)", None),
        ("cool-down", "not permitted: by an application", None),
        # Records of before have no gate.
        (None, "not permitted: only pending", "only pending"),
        (None, "there is no such tool", None),
        (None, None, None),
    ],
)
def test_the_conditions_that_refused_a_recorded_call_are_known_by_its_gate(
    gate: str | None, error: str | None, names: str | None
) -> None:
    assert conditions_that_refused(gate, error) == names
