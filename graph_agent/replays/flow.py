"""The flow of a decision from its recorded rules to others: what became of its calls, and what would have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from graph_agent.models.record import CallDisposition, DecisionRecord
from graph_agent.models.said import Said
from graph_agent.replays.report import ReplayReport
from graph_agent.words.reasons import rule_of
from graph_agent.words.said import in_line


class Fate(StrEnum):
    """The possible ends of the calls of a decision under a policy, the strictest first."""

    REFUSED = "refused"
    NEEDS_APPROVAL = "needs approval"
    ASKS = "asks"
    RUNS = "runs"
    NO_CALL = "no call"
    UNKNOWN = "unknown"
    """The replay ended before it was decided, or the decision cannot be replayed."""


_FATES = {
    CallDisposition.REFUSED: Fate.REFUSED,
    CallDisposition.WAITS: Fate.NEEDS_APPROVAL,
    CallDisposition.AWAITING: Fate.ASKS,
    CallDisposition.EXECUTED: Fate.RUNS,
    CallDisposition.REPEATED: Fate.RUNS,
}
"""Without a call that was skipped: nothing was decided about it."""


@dataclass(frozen=True, slots=True)
class Flow:
    """From which fate to which a decision goes: that of its first call that is decided otherwise, or else its strictest one."""

    before: Fate
    after: Fate
    tool_name: str | None = None
    """The tool of the call that is decided otherwise."""
    why: str | None = None
    """The rule that refuses the call now, or why the end is unknown."""
    said: str | None = None
    """The call as people read it; None for one that is not said."""

    @classmethod
    def of(cls, record: DecisionRecord | None, report: ReplayReport) -> Flow:
        """Return the flow of a decision. `record` is None if it cannot be read."""
        if record is None:
            return cls(Fate.UNKNOWN, Fate.UNKNOWN, why=report.departure)
        recorded = {call.sequence: _FATES[call.disposition] for call in record.invocations if call.disposition in _FATES}
        before = min(recorded.values(), key=list(Fate).index, default=Fate.NO_CALL)
        if not (report.identical or report.is_what_if):
            return cls(
                before, Fate.UNKNOWN, why=report.departure or "this version of graph-agent replays the decision differently"
            )
        for sequence, tool_name, fate, rule, said in _replayed(record, report):
            if sequence in recorded and recorded[sequence] is not fate:
                return cls(recorded[sequence], fate, tool_name, rule or None, None if said is None else in_line(said))
        if report.departure is not None:
            return cls(before, Fate.UNKNOWN, why=report.departure)
        return cls(before, before)

    def to_json(self) -> dict[str, Any]:
        return {"before": self.before, "after": self.after, "tool_name": self.tool_name, "said": self.said, "why": self.why}


def _replayed(record: DecisionRecord, report: ReplayReport) -> Iterable[tuple[int, str, Fate, str, Said | None]]:
    """Yield sequence, tool, fate, rule and sentence of the replayed calls."""
    calls = report.turn.calls if report.turn is not None else ()
    for call in calls:
        if call.disposition in _FATES:
            yield call.sequence, call.call.name, _FATES[call.disposition], rule_of(call), call.said
    if report.unanswered is not None:
        # It follows the calls that were judged before it in the same batch, which the step that failed has not kept.
        tool_name, runs = report.unanswered
        known = {call.sequence for call in calls}
        later = (one for one in record.invocations if one.tool_name == tool_name and one.sequence not in known)
        if (first := next(later, None)) is not None:
            recorded = {} if record.decision is None else {one.sequence: one.said for one in record.decision.calls_said}
            yield first.sequence, tool_name, Fate.RUNS if runs else Fate.ASKS, "", recorded.get(first.sequence)
