"""The words for how a decision came out."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.models.decision import DecisionType, OutcomeCategory
from graph_agent.words.outcomes import MEANINGS, OF_OUTCOMES, OF_TYPES, PENDING, Ending, kind_of_ending, words_of_ending


def test_every_outcome_and_every_type_has_words() -> None:
    # One outcome is reserved: no decision has it.
    assert {*MEANINGS, OutcomeCategory.INTENT_CLASSIFICATION} == {*OutcomeCategory, PENDING}
    assert {*OutcomeCategory, *(one.category for one in OutcomeCategory), PENDING} == {*OF_OUTCOMES}
    assert {*DecisionType, PENDING} == {*OF_TYPES}


@pytest.mark.parametrize(
    ("given", "words", "kind"),
    [
        ({"decision_type": DecisionType.REQUEST_CONFIRMATION}, "asked first", "asked"),
        ({"decision_type": DecisionType.REQUEST_CONFIRMATION, "asks_others": True}, "waits for an approval", "asked"),
        ({"decision_type": DecisionType.REQUEST_CONFIRMATION, "answers": True}, "confirmed, then asked again", "asked"),
        ({"decision_type": DecisionType.CANCEL_PENDING}, "declined", "declined"),
        ({"decision_type": DecisionType.EXECUTE_PENDING, "changed": True}, "done", "success"),
        ({"decision_type": DecisionType.INVOKE_TOOL}, "looked up", "success"),
        ({"decision_type": DecisionType.EXECUTE_PENDING, "unknown": True}, "not known whether it was done", "unknown"),
        ({"outcome": OutcomeCategory.MISSING_PERMISSION}, "refused: another user's data", "refusal"),
        (
            {"outcome": OutcomeCategory.MISSING_PERMISSION, "refused_by": "no milk"},
            "refused by a rule: no milk",
            "refusal",
        ),
        ({"decision_type": PENDING, "outcome": PENDING}, "running", "pending"),
    ],
)
def test_an_ending_is_said_in_words(given: dict[str, Any], words: str, kind: str) -> None:
    ending = Ending(**{"decision_type": DecisionType.RESPOND_ONLY, "outcome": OutcomeCategory.TASK_COMPLETED, **given})
    assert (words_of_ending(ending), kind_of_ending(ending)) == (words, kind)
