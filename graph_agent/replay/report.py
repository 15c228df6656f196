"""What a replay found, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graph_agent.graph.state import Turn
from graph_agent.graph.stepping import Step
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import DecisionRecord


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that came out otherwise; the values are text, shortened by nobody."""

    what: str
    recorded: str
    replayed: str


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """One decision, replayed.

    `departure` says in one sentence where the walk could not go on, because the record has no answer to what was asked there.
    """

    record: DecisionRecord
    differences: tuple[Difference, ...]
    departure: str | None = None
    steps: tuple[Step, ...] = ()
    replayed: DecisionRecord | None = None
    """What came out, where the walk reached its end."""

    @property
    def decision_id(self) -> str:
        return self.record.header.decision_id

    @property
    def identical(self) -> bool:
        return not self.differences and self.departure is None

    @property
    def turn(self) -> Turn | None:
        """How far the turn came."""
        return self.steps[-1].turn if self.steps else None

    def to_json(self) -> dict[str, Any]:
        return {
            "decision_id": self.decision_id,
            "identical": self.identical,
            "departure": self.departure,
            "differences": [{"what": one.what, "recorded": one.recorded, "replayed": one.replayed} for one in self.differences],
            "states": [step.state for step in self.steps],
            "decision": self.replayed.decision.to_json() if self.replayed else None,
        }


def compare_records(recorded: DecisionRecord, replayed: DecisionRecord) -> tuple[Difference, ...]:
    """Every leaf in which two records differ, the path first."""
    if recorded == replayed:
        return ()
    one, other = recorded.to_json(), replayed.to_json()
    path, again = (" -> ".join(record.pop("states")) for record in (one, other))
    decision, decided = one.pop("decision"), other.pop("decision")
    return (
        *_differences("path", path, again),
        *_differences("decision", decision, decided),
        *_differences("", one, other),
    )


def compare_outcomes(recorded: DecisionRecord, replayed: DecisionRecord) -> tuple[Difference, ...]:
    """What a user and an auditor would see otherwise: path, decision and calls, without ids and times."""
    return tuple(
        found for what, left in _outcome(recorded).items() for found in _differences(what, left, _outcome(replayed)[what])
    )


def compare_paths(recorded: DecisionRecord, steps: tuple[Step, ...]) -> tuple[Difference, ...]:
    """How a walk that did not reach its end differs from the recorded path up to there."""
    walked = [step.state for step in steps]
    if recorded.states[: len(walked)] == walked:
        return ()
    return (Difference("path", " -> ".join(recorded.states), " -> ".join(walked)),)


def _outcome(record: DecisionRecord) -> dict[str, Any]:
    decision = record.decision
    pending = decision.pending_action
    return {
        "path": " -> ".join(record.states),
        "decision type": decision.decision_type,
        "outcome": decision.outcome_category,
        "reply": decision.reply,
        "intent": decision.intent.intent_type if decision.intent else None,
        "receipts": decision.effects,
        "asks to confirm": None if pending is None else [pending.tool_name, pending.arguments],
        "calls": [
            [call.tool_name, call.parameters, call.disposition, call.error_message or ("done" if call.success else "failed")]
            for call in record.invocations
        ],
    }


def _differences(what: str, one: Any, other: Any) -> Iterator[Difference]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in sorted(one.keys() | other.keys()):
            yield from _differences(f"{what}.{name}" if what else name, one.get(name), other.get(name))
    elif isinstance(one, list) and isinstance(other, list):
        for place, (left, right) in enumerate(zip(one, other, strict=False)):
            yield from _differences(f"{what}[{place}]", left, right)
        for place in range(len(other), len(one)):
            yield Difference(f"{what}[{place}]", _text(one[place]), "nothing")
        for place in range(len(one), len(other)):
            yield Difference(f"{what}[{place}]", "nothing", _text(other[place]))
    elif canonical_json(one) != canonical_json(other):
        yield Difference(what, _text(one), _text(other))


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    return str(value) if isinstance(value, str) else canonical_json(value)
