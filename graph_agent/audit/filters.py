"""The filter that selects decisions, for queries, metrics, exports and replays."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator, model_validator
from sqlalchemy import ColumnElement, Connection, Select, UnaryExpression, and_, exists, func, or_, select
from sqlalchemy.sql.operators import custom_op

from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, UtcDatetime, located_violation
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory, require_storable
from graph_agent.models.record import RecordStatus
from graph_agent.record.search import matching, words_of
from graph_agent.record.tables import REFUSED, decision_logs, tool_invocation_logs

_OPEN = "PENDING"
_OUTCOMES = (*(outcome.value for outcome in OutcomeCategory), _OPEN)
_INTENTS = (*(intent.value for intent in IntentType), "LLM_PROCESSING")
_TYPES = (*(kind.value for kind in DecisionType), _OPEN)

_MAX_COUNT = 20_000
"""The maximum number of rows that are counted to compare two indexes."""
_INDEXED = frozenset(
    {
        "decision_id",
        "conversation_id",
        "user_id",
        "question",
        "outcome_category",
        "category",
        "intent_type",
        "decision_type",
        "model",
    }
)
"""The columns that begin an index."""

_NUMBER = re.compile(r"\s*[+-]?[\d.]+(e[+-]?\d+)?\s*", re.IGNORECASE)

_unary_plus: Any = custom_op("+")
_Id = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(require_storable)]
_Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(require_storable)]


class DecisionFilter(Frozen):
    """A decision matches if it matches every field that is set. The time range includes `since` and excludes `until`.

    `outcome` is a complete outcome such as `SUCCESS:TASK_COMPLETED`, or a prefix such as `ERROR` or `AMBIGUITY:M`.
    """

    decision_id: _Id | None = None
    conversation_id: _Name | None = None
    user_id: _Name | None = None
    since: UtcDatetime | None = None
    until: UtcDatetime | None = None
    decision_type: str | None = Field(default=None, json_schema_extra={"enum": list(_TYPES)})
    outcome: str | None = Field(default=None, pattern="^[A-Z_:]+$", examples=["ERROR", "SUCCESS:TASK_COMPLETED"])
    intent_type: str | None = Field(default=None, json_schema_extra={"enum": list(_INTENTS)})
    status: RecordStatus | None = None
    model: _Name | None = None
    response_model: _Name | None = None
    """The model that answered; `model` is the one that was requested."""
    constitution: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")
    question: _Name | None = None
    """The id of the question that a decision answers, or else of the one that it asks."""
    search: str | None = Field(default=None, min_length=1, max_length=200)
    """Words of the message, the reply, the tools or the arguments of a closed decision, each from its beginning: `gro` finds
    groceries.
    """
    refused: bool | None = None
    """True selects the decisions with a tool call that code refused, false those without one."""

    @classmethod
    def of(cls, /, **given: Any) -> Self:
        """Like the constructor, but an invalid value raises `ServiceError` VALIDATION_ERROR with one sentence."""
        try:
            return cls.model_validate(given)
        except ValidationError as exc:
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, located_violation(exc)) from None

    def in_range(self, since: datetime | None, until: datetime | None) -> Self:
        """Return a copy with this time range; None keeps the bound. Raises `ServiceError` VALIDATION_ERROR."""
        bounds = {"since": since, "until": until}
        return self.of(**{**dict(self), **{name: at for name, at in bounds.items() if at is not None}})

    @field_validator("since", "until", mode="before")
    @classmethod
    def _check_iso(cls, value: object) -> object:
        # Pydantic also reads a number as seconds since 1970, so a mistyped date would select everything or nothing.
        if isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value)):
            raise ValueError("must be a time in ISO 8601, such as 2026-01-31T12:00:00Z")
        return value

    @field_validator("outcome")
    @classmethod
    def _check_outcome(cls, value: str | None) -> str | None:
        if value is not None and not _outcomes(value):
            raise ValueError(f"no outcome is or starts with this; the outcomes are {', '.join(_OUTCOMES)}")
        return value

    @field_validator("decision_type", "intent_type")
    @classmethod
    def _check_known(cls, value: str | None, info: ValidationInfo) -> str | None:
        known = _TYPES if info.field_name == "decision_type" else _INTENTS
        if value is not None and value not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return value

    @field_validator("search")
    @classmethod
    def _check_search(cls, value: str | None) -> str | None:
        if value is not None and not words_of(value):
            raise ValueError("write a word or a number, because signs alone are not found")
        return value

    @model_validator(mode="after")
    def _check_range(self) -> Self:
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ValueError("until must be after since")
        return self

    @property
    def restricts_only_time(self) -> bool:
        return self == type(self)(since=self.since, until=self.until)

    def times(self, column: ColumnElement[datetime]) -> list[ColumnElement[bool]]:
        """Return the SQL conditions of the time range on `column`."""
        from_since = [] if self.since is None else [column >= self.since]
        return from_since if self.until is None else [*from_since, column < self.until]

    def conditions(self, connection: Connection, *, together: bool = False) -> list[ColumnElement[bool]]:
        """Return the SQL conditions, for the database of this connection.

        If they are listed `together`, of the decisions about one question the last one is selected.
        """
        columns = decision_logs.c
        others = self.times(columns.created_at)
        if self.refused is False:
            # No index helps here, so that it is checked like the time range: in addition to the other conditions.
            others.append(columns.decision_id.not_in(_WITH_REFUSALS))
        if self.search is not None:
            found = matching(connection, decision_logs, self.search)
            others.append(or_(found, columns.question.in_(_questions_of(connection, self.search))) if together else found)
        if together:
            others.append(~_ASKED_OR_ANSWERED_LATER)
        equalities = self._equalities()
        if connection.dialect.name != "sqlite" or len(equalities) < 2:
            return [*(_matches(column, value) for column, value in equalities), *others]
        # SQLite has no statistics about frequent and rare values and would use an arbitrary index. Therefore the condition
        # that leaves the fewest rows is found by counting; a unary plus keeps SQLite from using an index for the others.
        most_selective = min(equalities, key=lambda equality: _count_rows(connection, equality, others))
        return [
            _matches(*most_selective),
            *(_without_index(*other) for other in equalities if other is not most_selective),
            *others,
        ]

    def _equalities(self) -> list[_Equality]:
        """Return columns with their required value, or a list or query of values.

        Those that usually leave the fewest rows come first.
        """
        columns = decision_logs.c
        every = [
            (columns.decision_id, self.decision_id),
            (columns.decision_id, _WITH_REFUSALS if self.refused else None),
            (columns.conversation_id, self.conversation_id),
            (columns.user_id, self.user_id),
            (columns.status, self.status),
            *_outcome_columns(self.outcome),
            (columns.intent_type, self.intent_type),
            (columns.decision_type, self.decision_type),
            (columns.model, self.model),
            (columns.response_model, self.response_model),
            (columns.constitution, self.constitution),
            (columns.question, self.question),
        ]
        return [(column, value) for column, value in every if value is not None]


_Equality = tuple[ColumnElement[Any], Any]
_LATER = decision_logs.alias("later")
_ASKED_OR_ANSWERED_LATER = (
    exists()
    .where(
        _LATER.c.question == decision_logs.c.question,
        _LATER.c.user_id == decision_logs.c.user_id,
        or_(
            _LATER.c.created_at > decision_logs.c.created_at,
            and_(_LATER.c.created_at == decision_logs.c.created_at, _LATER.c.decision_id > decision_logs.c.decision_id),
        ),
    )
    .correlate(decision_logs)
)
"""True for a decision after which another one is about the same question."""
_WITH_REFUSALS = select(tool_invocation_logs.c.decision_id).where(REFUSED)


def _matches(column: ColumnElement[Any], value: Any) -> ColumnElement[bool]:
    return column.in_(value) if isinstance(value, list | Select) else column == value


def _questions_of(connection: Connection, search: str) -> Select[str]:
    """Return the questions of the decisions with these words."""
    found = decision_logs.alias("found")
    return select(found.c.question).where(found.c.question.is_not(None), matching(connection, found, search))


def _without_index(column: ColumnElement[Any], value: Any) -> ColumnElement[bool]:
    if column is decision_logs.c.category:
        # The other indexes contain the complete outcome, not the category.
        column, value = decision_logs.c.outcome_category, _outcomes(f"{value}:")
    return _matches(UnaryExpression(column, operator=_unary_plus, type_=column.type), value)


def _count_rows(connection: Connection, equality: _Equality, others: list[ColumnElement[bool]]) -> int:
    """Count the rows that a condition leaves, up to `_MAX_COUNT`; a column without an index ranks last."""
    column, value = equality
    if column.key not in _INDEXED and value is not RecordStatus.PENDING:
        return _MAX_COUNT + 1
    found = select(decision_logs.c.created_at).where(_matches(column, value), *others).limit(_MAX_COUNT).subquery()
    return connection.execute(select(func.count()).select_from(found)).scalar_one()


def _outcomes(prefix: str) -> list[str]:
    return [value for value in _OUTCOMES if value.startswith(prefix)]


def _outcome_columns(prefix: str | None) -> list[tuple[ColumnElement[Any], Any]]:
    if prefix is None:
        return []
    if prefix in {value.partition(":")[0] for value in _OUTCOMES}:
        return [(decision_logs.c.category, prefix)]
    outcomes = _outcomes(prefix)
    return [(decision_logs.c.outcome_category, outcomes[0] if len(outcomes) == 1 else outcomes)]
