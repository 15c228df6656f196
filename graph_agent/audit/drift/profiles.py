"""Profiles: the behavior of the agent over many decisions, as counts that can be stored and compared.

One profile covers one group: the decisions of one model under one constitution. A difference between two groups follows from a
change of model or policy; a difference between two profiles of the same group is drift.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import Field
from sqlalchemy import Connection, func, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.models.base import Frozen
from graph_agent.models.record import RecordStatus
from graph_agent.record.tables import decision_logs, tool_invocation_logs

_ERROR = "ERROR"
_UNKNOWN = "UNKNOWN"
_ROWS_PER_FETCH = 5_000


class Profile(Frozen):
    """The closed decisions of one group."""

    model: str
    constitution: str
    decisions: int
    intents: dict[str, int]
    decision_types: dict[str, int]
    outcomes: dict[str, int]
    tools: dict[str, int]
    """The number of decisions that requested each tool."""
    errors: int
    """The number of decisions of the category ERROR."""
    durations: dict[int, int] = Field(default_factory=dict)
    """The number of decisions for each duration in milliseconds."""
    response_models: dict[str, int] = Field(default_factory=dict)
    """Decisions by the model that answered, where it named itself."""

    @property
    def group(self) -> tuple[str, str]:
        return self.model, self.constitution


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The facts of one decision that a profile counts."""

    model: str
    response_model: str | None = None
    constitution: str
    intent: str
    decision_type: str
    outcome: str
    duration_ms: int
    tools: frozenset[str] = frozenset()
    """The tools that were requested."""


def build_profiles(observations: Iterable[Observation]) -> list[Profile]:
    """Return the profiles of all groups, the largest group first."""
    groups: dict[tuple[str, str], _Counts] = defaultdict(_Counts)
    for observation in observations:
        groups[observation.model, observation.constitution].add(observation)
    profiles = [counts.profile(*group) for group, counts in groups.items()]
    return sorted(profiles, key=lambda profile: (-profile.decisions, profile.group))


def read_profiles(connection: Connection, filters: DecisionFilter) -> list[Profile]:
    """Return the profiles of the closed decisions that match `filters`."""
    return build_profiles(_read_observations(connection, filters))


class _Counts:
    """The counts of one group while its decisions are read."""

    def __init__(self) -> None:
        self._figures: dict[str, Counter[Any]] = defaultdict(Counter)

    def add(self, one: Observation) -> None:
        for figure, values in (
            ("intents", [one.intent]),
            ("decision_types", [one.decision_type]),
            ("outcomes", [one.outcome]),
            ("tools", one.tools),
            ("durations", [one.duration_ms]),
            ("response_models", [] if one.response_model is None else [one.response_model]),
        ):
            self._figures[figure].update(values)

    def profile(self, model: str, constitution: str) -> Profile:
        outcomes = self._figures["outcomes"].items()
        errors = sum(times for outcome, times in outcomes if outcome.partition(":")[0] == _ERROR)
        decisions = self._figures["durations"].total()
        return Profile(model=model, constitution=constitution, decisions=decisions, errors=errors, **self._figures)


def _read_observations(connection: Connection, filters: DecisionFilter) -> Iterator[Observation]:
    columns = decision_logs.c
    conditions = [*filters.conditions(connection), columns.status != RecordStatus.PENDING]
    calls = connection.execute(
        select(tool_invocation_logs.c.decision_id, tool_invocation_logs.c.tool_name)
        .select_from(decision_logs.join(tool_invocation_logs, tool_invocation_logs.c.decision_id == columns.decision_id))
        .where(*conditions)
    )
    tools: dict[str, set[str]] = defaultdict(set)
    for call in calls:
        tools[call.decision_id].add(call.tool_name)
    # Named like the fields of an observation.
    query = select(
        columns.decision_id,
        func.coalesce(columns.model, _UNKNOWN).label("model"),
        columns.response_model,
        func.coalesce(columns.constitution, _UNKNOWN).label("constitution"),
        func.coalesce(columns.intent_type, _UNKNOWN).label("intent"),
        columns.decision_type,
        columns.outcome_category.label("outcome"),
        columns.duration_ms,
    ).where(*conditions)
    rows = connection.execute(query.execution_options(yield_per=_ROWS_PER_FETCH))
    _, *names = rows.keys()
    for decision_id, *facts in rows:
        yield Observation(**dict(zip(names, facts, strict=True)), tools=frozenset(tools.get(decision_id, ())))
