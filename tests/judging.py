"""The guard's verdicts on a batch in a setting that is given by keywords."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from graph_agent.models.llm import FunctionCall
from graph_agent.models.record import CallDisposition
from graph_agent.policy import guard
from graph_agent.policy.call_in_hand import Evidence, GuardVerdict, Setting
from graph_agent.words.reasons import for_user

_OF_SETTING = {field.name for field in fields(Setting)}


def judge_batch(batch: Sequence[FunctionCall], **given: Any) -> tuple[GuardVerdict, ...]:
    """Judge `batch` as if each call before another one had been sent."""
    setting = Setting(**{name: value for name, value in given.items() if name in _OF_SETTING})
    rest = {name: value for name, value in given.items() if name not in _OF_SETTING}
    evidence = Evidence(**{name: rest.pop(name) for name in Evidence._fields if name in rest})
    return guard.judge_batch(batch, setting, rest.pop("past", ()), **rest, evidence=evidence)


def rule_of_verdict(judged: GuardVerdict) -> str:
    """Return the rule that refuses a call, or that requires people to be asked, as the user reads it."""
    return for_user(judged.reason) if judged.disposition is CallDisposition.REFUSED else judged.because
