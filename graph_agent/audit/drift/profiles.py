"""Profiles: the behavior of the agent over many decisions, as counts that can be stored and compared.

One profile covers one group: the decisions of one model under one constitution. A difference between two groups follows from a
change of model or policy; a difference between two profiles of the same group is drift.
"""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from pydantic import Field
from sqlalchemy import Connection, func, select

from graph_agent.audit.filters import DecisionFilter
from graph_agent.audit.metrics import percentile
from graph_agent.models.base import Frozen
from graph_agent.models.record import DecisionRecord, EntryKind, RecordStatus
from graph_agent.record.projection import response_model
from graph_agent.record.tables import decision_logs, tool_invocation_logs

_ERROR = "ERROR"
_UNKNOWN = "UNKNOWN"
_ROWS_PER_FETCH = 5_000


class ToolFrequency(Frozen):
    """The calls of one tool that decisions requested: their sum, and the sum of the squares for the variance."""

    total: int = 0
    squares: int = 0


class UserSums(Frozen):
    """Sums over users for one figure, where a user has `x` occurrences in `n` decisions."""

    squares: int = 0
    """The sum of x²."""
    products: int = 0
    """The sum of x·n."""


class UserCounts(Frozen):
    """The distribution of a profile's decisions over users; the users themselves are not stored."""

    count: int
    decisions_squared: int
    """The sum of n², where a user has n decisions."""
    intents: dict[str, UserSums]
    decision_types: dict[str, UserSums]
    outcomes: dict[str, UserSums]
    tools: dict[str, UserSums]
    errors: UserSums
    slow: int
    """The number of decisions that took longer than the median."""
    slow_sums: UserSums


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
    """The number of decisions of the category ERROR."""
    durations: dict[int, int] = Field(default_factory=dict)
    """The number of decisions for each duration in milliseconds."""
    response_models: dict[str, int] = Field(default_factory=dict)
    """Decisions by the model that answered, where it named itself."""
    users: UserCounts | None = None
    """None in a baseline that was created before profiles counted users."""

    @property
    def group(self) -> tuple[str, str]:
        return self.model, self.constitution


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The facts of one decision that a profile counts."""

    model: str
    response_model: str | None = None
    constitution: str
    user_id: str
    intent: str
    decision_type: str
    outcome: str
    duration_ms: int
    tools: Mapping[str, int]
    """Requested calls by tool."""


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


def observe(record: DecisionRecord) -> Observation:
    """Return the observation of one decision from its record."""
    decision = record.decision
    return Observation(
        model=record.header.model,
        response_model=response_model([entry.result for entry in record.entries if entry.kind is EntryKind.MODEL]),
        constitution=record.header.constitution,
        user_id=record.header.context.user_id,
        intent=decision.intent.intent_type.value if decision.intent else _UNKNOWN,
        decision_type=decision.decision_type.value,
        outcome=decision.outcome_category.value if decision.outcome_category else _UNKNOWN,
        duration_ms=record.duration_ms,
        tools=Counter(invocation.tool_name for invocation in record.invocations),
    )


class _Counts:
    """The counts of one group while its decisions are read.

    Every figure is counted by name and user. Durations are kept in compact arrays, because the slow decisions of a user can be
    counted only after the median is known.
    """

    def __init__(self) -> None:
        self._user_numbers: dict[str, int] = {}
        self._sizes: Counter[int] = Counter()
        self._by_user: dict[str, _ByName] = {name: defaultdict(Counter) for name in _FIGURES}
        self._tool_squares: Counter[str] = Counter()
        self._response_models: Counter[str] = Counter()
        self._users = array("q")
        self._durations = array("q")

    def add(self, observation: Observation) -> None:
        user = self._user_numbers.setdefault(observation.user_id, len(self._user_numbers))
        self._sizes[user] += 1
        for figure, counts in _FIGURES.items():
            for name, times in counts(observation).items():
                self._by_user[figure][name][user] += times
        for name, times in observation.tools.items():
            self._tool_squares[name] += times * times
        if observation.response_model is not None:
            self._response_models[observation.response_model] += 1
        self._users.append(user)
        self._durations.append(observation.duration_ms)

    def profile(self, model: str, constitution: str) -> Profile:
        totals = {figure: {name: by_user.total() for name, by_user in names.items()} for figure, names in self._by_user.items()}
        sums = {
            figure: {name: self._sums(by_user) for name, by_user in names.items()} for figure, names in self._by_user.items()
        }
        durations = Counter(self._durations)
        median = percentile(durations, 0.5)
        slow = Counter(user for user, ms in zip(self._users, self._durations, strict=True) if ms > median)
        errors: Counter[int] = Counter()
        for outcome, by_user in self._by_user["outcomes"].items():
            if outcome.partition(":")[0] == _ERROR:
                errors.update(by_user)
        users = UserCounts(
            count=len(self._sizes),
            decisions_squared=sum(n * n for n in self._sizes.values()),
            **sums,
            errors=self._sums(errors),
            slow=slow.total(),
            slow_sums=self._sums(slow),
        )
        tools = totals.pop("tools")
        return Profile(
            model=model,
            constitution=constitution,
            decisions=len(self._durations),
            **totals,
            tools={name: ToolFrequency(total=total, squares=self._tool_squares[name]) for name, total in tools.items()},
            errors=errors.total(),
            durations=durations,
            response_models=self._response_models,
            users=users,
        )

    def _sums(self, by_user: Counter[int]) -> UserSums:
        return UserSums(
            squares=sum(x * x for x in by_user.values()),
            products=sum(x * self._sizes[user] for user, x in by_user.items()),
        )


_ByName = dict[str, Counter[int]]

_FIGURES: dict[str, Callable[[Observation], Mapping[str, int]]] = {
    "intents": lambda one: {one.intent: 1},
    "decision_types": lambda one: {one.decision_type: 1},
    "outcomes": lambda one: {one.outcome: 1},
    "tools": lambda one: one.tools,
}
"""The occurrences that one decision adds to each figure, by name."""


def _read_observations(connection: Connection, filters: DecisionFilter) -> Iterator[Observation]:
    columns = decision_logs.c
    conditions = [*filters.conditions(connection), columns.status != RecordStatus.PENDING]
    calls = connection.execute(
        select(tool_invocation_logs.c.decision_id, tool_invocation_logs.c.tool_name)
        .select_from(decision_logs.join(tool_invocation_logs, tool_invocation_logs.c.decision_id == columns.decision_id))
        .where(*conditions)
    )
    tools: dict[str, Counter[str]] = defaultdict(Counter)
    for call in calls:
        tools[call.decision_id][call.tool_name] += 1
    # Named like the fields of an observation.
    query = select(
        columns.decision_id,
        func.coalesce(columns.model, _UNKNOWN).label("model"),
        columns.response_model,
        func.coalesce(columns.constitution, _UNKNOWN).label("constitution"),
        columns.user_id,
        func.coalesce(columns.intent_type, _UNKNOWN).label("intent"),
        columns.decision_type,
        columns.outcome_category.label("outcome"),
        columns.duration_ms,
    ).where(*conditions)
    rows = connection.execute(query.execution_options(yield_per=_ROWS_PER_FETCH))
    _, *names = rows.keys()
    for decision_id, *facts in rows:
        yield Observation(**dict(zip(names, facts, strict=True)), tools=tools.get(decision_id, {}))
