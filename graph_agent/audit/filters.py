"""Which decisions are meant: one value for queries, metrics, exports and replays."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from sqlalchemy import ColumnElement, Connection, UnaryExpression, func, select
from sqlalchemy.sql.operators import custom_op

from graph_agent.record.tables import DecisionLog, table_of
from graph_agent.errors import ServiceError, ServiceErrorCode
from graph_agent.models.base import Frozen, UtcDatetime
from graph_agent.models.decision import DecisionType, IntentType, OutcomeCategory, unstorable
from graph_agent.models.record import RecordStatus

_decisions = table_of(DecisionLog)
_OPEN = "PENDING"
_OUTCOMES = (*(outcome.value for outcome in OutcomeCategory), _OPEN)
_INTENTS = (*(intent.value for intent in IntentType), "LLM_PROCESSING")
_TYPES = (*(kind.value for kind in DecisionType), _OPEN)

_COUNTED = 20_000
_INDEXED = frozenset(
    {"decision_id", "conversation_id", "user_id", "outcome_category", "category", "intent_type", "decision_type", "model"}
)

_plus: Any = custom_op("+")


class DecisionFilter(Frozen):
    """Every field that is given must hold; `since` is inside the span of time, `until` is not.

    `outcome` is a whole outcome, `SUCCESS:TASK_COMPLETED`, or the beginning of one, `ERROR` or `AMBIGUITY:M`.
    """

    decision_id: str | None = Field(default=None, min_length=1, max_length=64)
    conversation_id: str | None = Field(default=None, min_length=1, max_length=255)
    user_id: str | None = Field(default=None, min_length=1, max_length=255)
    since: UtcDatetime | None = None
    until: UtcDatetime | None = None
    decision_type: str | None = Field(default=None, json_schema_extra={"enum": list(_TYPES)})
    outcome: str | None = Field(default=None, pattern="^[A-Z_:]+$", examples=["ERROR", "SUCCESS:TASK_COMPLETED"])
    intent_type: str | None = Field(default=None, json_schema_extra={"enum": list(_INTENTS)})
    status: RecordStatus | None = None
    model: str | None = Field(default=None, min_length=1, max_length=255)
    constitution: str | None = Field(default=None, pattern="^[0-9a-f]{64}$")

    @classmethod
    def of(cls, **given: Any) -> Self:
        """Like the constructor, but a wrong value raises `ServiceError` VALIDATION_ERROR with one sentence."""
        try:
            return cls.model_validate(given)
        except ValidationError as exc:
            slip = exc.errors(include_url=False, include_input=False)[0]
            name = str(slip["loc"][0]) if slip["loc"] else ""
            text = slip["msg"].removeprefix("Value error, ")
            raise ServiceError(ServiceErrorCode.VALIDATION_ERROR, f"{name}: {text}" if name else text) from None

    def spanning(self, since: datetime | None, until: datetime | None) -> Self:
        """The same within this span of time, where it is given. Raises `ServiceError` VALIDATION_ERROR."""
        span = {"since": since, "until": until}
        return self.of(**{**dict(self), **{name: at for name, at in span.items() if at is not None}})

    @field_validator("decision_id", "conversation_id", "user_id", "model")
    @classmethod
    def _storable(cls, value: str | None) -> str | None:
        if value is not None and (reason := unstorable(value)):
            raise ValueError(reason)
        return value

    @field_validator("outcome")
    @classmethod
    def _begins_an_outcome(cls, value: str | None) -> str | None:
        if value is not None and not _outcomes(value):
            raise ValueError(f"no outcome is called so or begins so; there are {', '.join(_OUTCOMES)}")
        return value

    @field_validator("decision_type")
    @classmethod
    def _is_a_type(cls, value: str | None) -> str | None:
        return _one_of(value, _TYPES)

    @field_validator("intent_type")
    @classmethod
    def _is_an_intent(cls, value: str | None) -> str | None:
        return _one_of(value, _INTENTS)

    @model_validator(mode="after")
    def _time_goes_on(self) -> Self:
        if self.since is not None and self.until is not None and self.until <= self.since:
            raise ValueError("until must lie after since")
        return self

    def conditions(self, connection: Connection) -> list[ColumnElement[bool]]:
        """The SQL of it, for this connection's database."""
        columns = _decisions.c
        span: list[ColumnElement[bool]] = []
        if self.since is not None:
            span.append(columns.created_at >= self.since)
        if self.until is not None:
            span.append(columns.created_at < self.until)
        given = self._equalities()
        if connection.dialect.name != "sqlite" or len(given) < 2:
            return [*(_holds(column, value) for column, value in given), *span]
        # SQLite keeps no statistics that tell frequent values from rare ones, and would take any of the indexes. So they are
        # asked which condition leaves the fewest rows; a plus takes the other conditions out of the choice.
        leader = min(given, key=lambda equality: _rows(connection, equality, span))
        return [_holds(*leader), *(_without_index(*other) for other in given if other is not leader), *span]

    def _equalities(self) -> list[_Equality]:
        """Columns and the value, or the values, they must have; those that leave the fewest rows as a rule come first."""
        columns = _decisions.c
        every = [
            (columns.decision_id, self.decision_id),
            (columns.conversation_id, self.conversation_id),
            (columns.user_id, self.user_id),
            (columns.status, self.status),
            *_outcome_columns(self.outcome),
            (columns.intent_type, self.intent_type),
            (columns.decision_type, self.decision_type),
            (columns.model, self.model),
            (columns.constitution, self.constitution),
        ]
        return [(column, value) for column, value in every if value is not None]


_Equality = tuple[ColumnElement[Any], Any]


def _holds(column: ColumnElement[Any], value: Any) -> ColumnElement[bool]:
    return column.in_(value) if isinstance(value, list) else column == value


def _without_index(column: ColumnElement[Any], value: Any) -> ColumnElement[bool]:
    if column is _decisions.c.category:
        # The other indexes carry the whole outcome.
        column, value = _decisions.c.outcome_category, _outcomes(f"{value}:")
    return _holds(UnaryExpression(column, operator=_plus, type_=column.type), value)


def _rows(connection: Connection, equality: _Equality, span: list[ColumnElement[bool]]) -> int:
    """How many rows a condition leaves, counted as far as `_COUNTED`; a column without an index is the last choice."""
    column, value = equality
    if column.key not in _INDEXED and value is not RecordStatus.PENDING:
        return _COUNTED + 1
    found = select(_decisions.c.created_at).where(_holds(column, value), *span).limit(_COUNTED).subquery()
    return connection.execute(select(func.count()).select_from(found)).scalar_one()


def _outcomes(prefix: str) -> list[str]:
    return [value for value in _OUTCOMES if value.startswith(prefix)]


def _outcome_columns(prefix: str | None) -> list[tuple[ColumnElement[Any], Any]]:
    if prefix is None:
        return []
    if prefix in {value.partition(":")[0] for value in _OUTCOMES}:
        return [(_decisions.c.category, prefix)]
    meant = _outcomes(prefix)
    return [(_decisions.c.outcome_category, meant[0] if len(meant) == 1 else meant)]


def _one_of(value: str | None, known: tuple[str, ...]) -> str | None:
    if value is not None and value not in known:
        raise ValueError(f"must be one of {', '.join(known)}")
    return value
