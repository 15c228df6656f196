"""The report of a replay: the differences between the recorded and the replayed decision."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from graph_agent.graph.state import Turn
from graph_agent.graph.step import Step
from graph_agent.models.canonical import canonical_json
from graph_agent.models.record import CallDisposition, DecisionRecord, ShadowedCall
from graph_agent.words.reasons import rule_of


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. The values are complete texts.

    `what` names the place: a path into the record such as `decision.response_text`, or a label such as `path`.
    """

    what: str
    recorded: str
    replayed: str


@dataclass(frozen=True, slots=True)
class RefusedCall:
    """A call that is refused now and was not when it was recorded. `rule` says why, as a clause for the user."""

    tool_name: str
    rule: str

    def __str__(self) -> str:
        return f"{self.tool_name} would have been refused: {self.rule}"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The result of one replay.

    `departure` is set if the replay ended early: one sentence that says where, and what the record has no answer to.
    """

    decision_id: str
    differences: tuple[Difference, ...]
    departure: str | None = None
    steps: tuple[Step, ...] = ()
    replayed: DecisionRecord | None = None
    """The new record, if the replay reached its end."""
    refused: tuple[RefusedCall, ...] = ()
    """With another constitution or a live model: the calls that are refused now."""
    is_what_if: bool = False
    """True if the turn was decided by other rules or a live model, after it was replayed as it was recorded."""
    unanswered: tuple[str, bool] | None = None
    """In a what-if replay that ended at a call: its tool, and whether it would run; if not, the user would be asked."""

    @property
    def identical(self) -> bool:
        return not self.differences and self.departure is None

    @property
    def turn(self) -> Turn | None:
        """The state of the turn after the last step."""
        return self.steps[-1].turn if self.steps else None

    @property
    def shadowed(self) -> list[ShadowedCall]:
        """The calls of the replayed turn about which rules in the shadow have a verdict."""
        calls = () if self.turn is None else self.turn.calls
        return [ShadowedCall.of(one.sequence, one.call.name, one.arguments, one.shadow) for one in calls if one.shadow]

    def to_json(self) -> dict[str, Any]:
        return {
            "decision_id": self.decision_id,
            "identical": self.identical,
            "departure": self.departure,
            "differences": [asdict(difference) for difference in self.differences],
            "refused": [asdict(call) for call in self.refused],
            "states": [step.state for step in self.steps],
            "decision": self.replayed.decision.to_json() if self.replayed else None,
        }


def compare_records(recorded: DecisionRecord, replayed: DecisionRecord) -> tuple[Difference, ...]:
    """Return every value in which two records differ, the path first."""
    if recorded == replayed:
        return ()
    before, after = recorded.to_json(), replayed.to_json()
    path, new_path = (" -> ".join(record.pop("states")) for record in (before, after))
    decision, new_decision = before.pop("decision"), after.pop("decision")
    return (
        *_differences("path", path, new_path),
        *_differences("decision", decision, new_decision),
        *_differences("", before, after),
    )


def compare_outcomes(recorded: DecisionRecord, replayed: DecisionRecord) -> tuple[Difference, ...]:
    """Return the differences that a user or an auditor would see: path, decision and calls, without ids and times."""
    before, after = _visible_outcome(recorded), _visible_outcome(replayed)
    return tuple(difference for what in before for difference in _differences(what, before[what], after[what]))


def compare_paths(recorded: DecisionRecord, steps: tuple[Step, ...]) -> tuple[Difference, ...]:
    """Compare the path of a replay that ended early with the start of the recorded path."""
    walked = [step.state for step in steps]
    if recorded.states[: len(walked)] == walked:
        return ()
    return (Difference("path", " -> ".join(recorded.states), " -> ".join(walked)),)


def compare_unfinished(recorded: DecisionRecord, steps: tuple[Step, ...]) -> tuple[Difference, ...]:
    """Compare the path and the calls of a what-if replay that ended early with the start of what was recorded."""
    made = steps[-1].turn.calls if steps else ()
    calls = [
        _visible_call(call.call.name, call.arguments, call.disposition, call.result.error, success=call.result.success)
        for call in made
    ]
    return (*compare_paths(recorded, steps), *_differences("calls", _visible_outcome(recorded)["calls"][: len(calls)], calls))


def calls_refused_now(recorded: DecisionRecord, turn: Turn) -> tuple[RefusedCall, ...]:
    """Return the calls of `turn` that are refused, but not in the record."""
    before = {call.sequence for call in recorded.invocations if call.disposition is CallDisposition.REFUSED}
    return tuple(
        RefusedCall(call.call.name, rule_of(call))
        for call in turn.calls
        if call.disposition is CallDisposition.REFUSED and call.sequence not in before
    )


def _visible_outcome(record: DecisionRecord) -> dict[str, Any]:
    decision = record.decision
    pending = decision.pending_action
    asked = [] if pending is None else [[one.tool_name, one.arguments] for one in pending.each]
    return {
        "path": " -> ".join(record.states),
        "decision type": decision.decision_type,
        "outcome": decision.outcome_category,
        "reply": decision.reply,
        "intent": decision.intent.intent_type if decision.intent else None,
        "receipts": decision.effects,
        "asks to confirm": asked[0] if len(asked) == 1 else asked or None,
        "calls": [
            _visible_call(call.tool_name, call.parameters, call.disposition, call.error_message, success=call.success)
            for call in record.invocations
        ],
    }


def _visible_call(tool_name: str, arguments: Any, disposition: CallDisposition, error: str | None, *, success: bool) -> str:
    return f"{tool_name} {canonical_json(arguments)}: {disposition}, {error or ('done' if success else 'failed')}"


def _differences(what: str, recorded: Any, replayed: Any) -> Iterator[Difference]:
    """Yield the differences between two JSON values; `what` is the path to both."""
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for name in sorted(recorded.keys() | replayed.keys()):
            yield from _differences(f"{what}.{name}" if what else name, recorded.get(name), replayed.get(name))
    elif isinstance(recorded, list) and isinstance(replayed, list):
        for index, (before, after) in enumerate(zip(recorded, replayed, strict=False)):
            yield from _differences(f"{what}[{index}]", before, after)
        # Not zip_longest: an additional null is a difference too.
        for index in range(len(replayed), len(recorded)):
            yield Difference(f"{what}[{index}]", _text(recorded[index]), "nothing")
        for index in range(len(recorded), len(replayed)):
            yield Difference(f"{what}[{index}]", "nothing", _text(replayed[index]))
    elif canonical_json(recorded) != canonical_json(replayed):
        yield Difference(what, _text(recorded), _text(replayed))


def _text(value: Any) -> str:
    if value is None:
        return "nothing"
    return str(value) if isinstance(value, str) else canonical_json(value)
