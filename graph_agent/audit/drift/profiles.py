"""How the agent behaved over many decisions: counts that can be added, compared and kept.

One profile is of one group: the decisions of one model under one constitution. What differs between groups is a change somebody
made, what differs between two profiles of one group is drift.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from pydantic import Field
from sqlalchemy import Connection, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.record.tables import DecisionLog, ToolInvocationLog, table_of
from graph_agent.models.base import Frozen
from graph_agent.models.record import DecisionRecord, RecordStatus

_decisions = table_of(DecisionLog)
_invocations = table_of(ToolInvocationLog)

_ERROR = "ERROR"
_PORTION = 5_000


class ToolFrequency(Frozen):
    """How many calls of one tool decisions asked for: the sum, and the sum of the squares for the spread."""

    total: int = 0
    squares: int = 0


class Profile(Frozen):
    """The closed decisions of one group."""

    model: str
    constitution: str
    decisions: int
    intents: dict[str, int]
    decision_types: dict[str, int]
    outcomes: dict[str, int]
    tools: dict[str, ToolFrequency]
    errors: int
    """Decisions of the category ERROR."""
    durations: dict[int, int] = Field(default_factory=dict)
    """How often each duration in milliseconds occurs."""

    @property
    def group(self) -> tuple[str, str]:
        return self.model, self.constitution


class Seen(Frozen):
    """What a profile needs to know of one decision."""

    model: str
    constitution: str
    intent: str
    decision_type: str
    outcome: str
    duration_ms: int
    tools: dict[str, int]
    """Calls asked for, by tool."""


def profiles_of(seen: Iterable[Seen]) -> list[Profile]:
    """The profiles of all groups among `seen`, the largest first."""
    groups: dict[tuple[str, str], _Counts] = defaultdict(_Counts)
    for one in seen:
        groups[one.model, one.constitution].add(one)
    profiles = [counts.profile(*group) for group, counts in groups.items()]
    return sorted(profiles, key=lambda profile: (-profile.decisions, profile.group))


def read_profiles(connection: Connection, filters: DecisionFilter) -> list[Profile]:
    """The profiles of the decisions that `filters` mean."""
    return profiles_of(_read(connection, filters))


def seen_in(record: DecisionRecord) -> Seen:
    """A decision from its record."""
    decision = record.decision
    return Seen(
        model=record.header.model,
        constitution=record.header.constitution,
        intent=decision.intent.intent_type.value if decision.intent else "UNKNOWN",
        decision_type=decision.decision_type.value,
        outcome=decision.outcome_category.value if decision.outcome_category else "UNKNOWN",
        duration_ms=record.duration_ms,
        tools=Counter(invocation.tool_name for invocation in record.invocations),
    )


class _Counts:
    def __init__(self) -> None:
        self.decisions = 0
        self.intents: Counter[str] = Counter()
        self.decision_types: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.tools: Counter[str] = Counter()
        self.squares: Counter[str] = Counter()
        self.durations: Counter[int] = Counter()

    def add(self, one: Seen) -> None:
        self.decisions += 1
        self.intents[one.intent] += 1
        self.decision_types[one.decision_type] += 1
        self.outcomes[one.outcome] += 1
        self.durations[one.duration_ms] += 1
        for name, times in one.tools.items():
            self.tools[name] += times
            self.squares[name] += times * times

    def profile(self, model: str, constitution: str) -> Profile:
        return Profile(
            model=model,
            constitution=constitution,
            decisions=self.decisions,
            intents=dict(self.intents),
            decision_types=dict(self.decision_types),
            outcomes=dict(self.outcomes),
            tools={name: ToolFrequency(total=total, squares=self.squares[name]) for name, total in self.tools.items()},
            errors=sum(times for outcome, times in self.outcomes.items() if outcome.partition(":")[0] == _ERROR),
            durations=dict(self.durations),
        )


def _read(connection: Connection, filters: DecisionFilter) -> Iterator[Seen]:
    columns = _decisions.c
    conditions = [*filters.conditions(connection), columns.status != RecordStatus.PENDING]
    calls = connection.execute(
        select(_invocations.c.decision_id, _invocations.c.tool_name)
        .select_from(_decisions.join(_invocations, _invocations.c.decision_id == columns.decision_id))
        .where(*conditions)
    )
    tools: dict[str, Counter[str]] = defaultdict(Counter)
    for call in calls:
        tools[call.decision_id][call.tool_name] += 1
    wanted = select(
        columns.decision_id,
        columns.model,
        columns.constitution,
        columns.intent_type,
        columns.decision_type,
        columns.outcome_category,
        columns.duration_ms,
    ).where(*conditions)
    rows = connection.execute(wanted.execution_options(yield_per=_PORTION))
    for row in rows:
        yield Seen.model_construct(
            model=row.model or "UNKNOWN",
            constitution=row.constitution or "UNKNOWN",
            intent=row.intent_type or "UNKNOWN",
            decision_type=row.decision_type,
            outcome=row.outcome_category,
            duration_ms=row.duration_ms,
            tools=tools.get(row.decision_id, {}),
        )
